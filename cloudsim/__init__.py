"""Simulated clouds behind the real wire protocols.

One cloud-neutral `cloudsim.world`, one front per cloud (`cloudsim.ec2`), and a control API at `/_sim`
(`cloudsim.control`) for whatever a real cloud would do by itself. Imports nothing of the control plane.
"""
