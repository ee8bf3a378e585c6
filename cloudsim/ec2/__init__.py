"""The AWS front: EC2, and what a GPU launcher needs of SSM, Service Quotas and STS, on one endpoint."""
