"""The AWS adapter: EC2 through boto3, one module per subject, `adapter` is the way in."""
