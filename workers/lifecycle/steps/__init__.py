"""One file per step of the protocol. A step starts from what is stored, acts, and stores what it learnt.

It answers None (load again and decide anew) or `Rest(until)`. Decisions are guarded by the claim: when a guard
holds one off, the claim is lost and the step simply ends.
"""
