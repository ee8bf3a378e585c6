"""boto3 clients of one account: credentials, timeouts, and one client per service and region.

Credentials come from boto3's own chain, restricted by the account's `profile`. Credentials of `role_arn` come from STS
and are renewed before they expire. Nothing is loaded or called before the first client is used.
"""

import logging
import re
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    CredentialProvider,
    CredentialResolver,
    Credentials,
    DeferredRefreshableCredentials,
)
from botocore.exceptions import NoCredentialsError

from app.settings import Settings
from workers.providers.aws.errors import translated
from workers.providers.aws.sdk import ReadingLoader, timestamp
from workers.providers.aws.settings import AwsAccount
from workers.providers.credentials import CredentialGuard
from workers.providers.send_window import require_open_window

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_service_quotas import ServiceQuotasClient
    from mypy_boto3_ssm import SSMClient
    from mypy_boto3_sts import STSClient

# At level DEBUG botocore logs request and response bodies, which contain start-up scripts and session credentials.
logging.getLogger("botocore").setLevel(logging.INFO)

PRICING_REGION = "us-east-1"
"""One of the few regions with a pricing endpoint (AWS Price List user guide, "Using the AWS Price List Query API")."""

_GUARDED = ("before-send.ec2", "before-send.sts.GetCallerIdentity")
_ACCESS_KEY = re.compile(r"Credential=([^/,\s]+)/")
"""The access key id in the Authorization header of a signed request (AWS Signature Version 4)."""

# A process parses each service model once, not once per account: EC2's model takes a third of a second.
_LOADER = ReadingLoader()


class AwsClients:
    """Creates each client once under a lock, because boto3 sessions are not thread-safe. Threads share the clients.

    `longest_wait`: seconds to wait for a queue message, well below the timeout of a call.
    `guard` checks each signed request to EC2 before it is sent.
    """

    def __init__(self, account: AwsAccount, settings: Settings, guard: CredentialGuard | None = None) -> None:
        self._account = account
        self._guard = guard or CredentialGuard()
        self.longest_wait = max(1, min(5, int(settings.call_timeout / 2)))
        self._config = _config(settings)
        self._lock = Lock()
        self._session: boto3.Session | None = None
        self._clients: dict[tuple[str, str], Any] = {}

    def ec2(self, region: str) -> "EC2Client":
        """The EC2 client of a region."""
        return cast("EC2Client", self._client("ec2", region))

    def ssm(self, region: str) -> "SSMClient":
        """The Systems Manager client of a region, used for public parameters."""
        return cast("SSMClient", self._client("ssm", region))

    def quotas(self, region: str) -> "ServiceQuotasClient":
        """The Service Quotas client of a region."""
        return cast("ServiceQuotasClient", self._client("service-quotas", region))

    def pricing(self) -> Any:
        """The client of the Price List Query API, which returns the prices of all regions."""
        return self._client("pricing", PRICING_REGION)

    def sts(self) -> "STSClient":
        """The STS client of the account's first region. An account has STS enabled in each region that it uses."""
        return cast("STSClient", self._client("sts", self._account.regions[0]))

    def iam(self) -> Any:
        """The IAM client. IAM is one service for all regions."""
        return self._client("iam", self._account.regions[0])

    def sqs(self) -> Any:
        """The SQS client for the account's event queue. Calls go to the queue's own URL, in any region."""
        return self._client("sqs", self._account.regions[0])

    def _client(self, service: str, region: str) -> Any:
        client = self._clients.get((service, region))
        return client if client is not None else self._make(service, region)

    def _make(self, service: str, region: str) -> Any:
        with self._lock, translated():
            if self._session is None:
                self._session = _session(self._account, self._config)
                for name in _GUARDED:
                    self._session.events.register(name, self._check_signed)
            if (service, region) not in self._clients:
                create: Any = self._session.client  # typed per literal service name only
                self._clients[service, region] = create(
                    service, region_name=region, endpoint_url=self._account.endpoint_url, config=self._config
                )
            return self._clients[service, region]

    def _check_signed(self, request: Any, **_: Any) -> None:
        """Botocore's hook before a request. If the hook raises, the call raises the same error and nothing is sent."""
        header = request.headers.get("Authorization", "")
        match = _ACCESS_KEY.search(header.decode() if isinstance(header, bytes) else header)
        self._guard.check(match.group(1) if match else "")
        require_open_window()


def _config(settings: Settings) -> Config:
    """No SDK retries: the reconciler decides about a repeat, and EC2 reports missing capacity with a 5xx."""
    return Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.call_timeout,
        max_pool_connections=settings.worker_threads + 4,
        user_agent_extra="gpulease",
        tcp_keepalive=True,
    )


def _session(account: AwsAccount, config: Config) -> boto3.Session:
    base = _bare_session(account)
    if account.role_arn is None:
        return boto3.Session(botocore_session=base)
    assumed = _bare_session(account)
    resolver = CredentialResolver(providers=[_AssumedRole(account, base, config)])
    assumed.register_component("credential_provider", resolver)
    return boto3.Session(botocore_session=assumed)


def _bare_session(account: AwsAccount) -> botocore.session.Session:
    session = botocore.session.Session(profile=account.profile)
    session.register_component("data_loader", _LOADER)
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=timestamp)
    return session


class _AssumedRole(CredentialProvider):
    """Credentials of `role_arn`, fetched at first use and again before they expire."""

    METHOD = "assume-role"

    def __init__(self, account: AwsAccount, base: botocore.session.Session, config: Config) -> None:
        super().__init__()
        self._account = account
        self._base = base
        self._config = config

    def load(self) -> Credentials:
        source = self._base.get_credentials()
        if source is None:
            raise NoCredentialsError
        fetcher = AssumeRoleCredentialFetcher(
            client_creator=self._creator(),
            source_credentials=source,
            role_arn=str(self._account.role_arn),
            extra_args=self._arguments(),
        )
        return DeferredRefreshableCredentials(refresh_using=fetcher.fetch_credentials, method=self.METHOD)

    def _arguments(self) -> dict[str, str]:
        arguments = {"RoleSessionName": f"gpulease-{self._account.name}"}
        external_id = self._account.external_id
        return arguments if external_id is None else {**arguments, "ExternalId": external_id}

    def _creator(self) -> Any:
        return partial(
            self._base.create_client,
            region_name=self._account.regions[0],
            endpoint_url=self._account.endpoint_url,
            config=self._config,
        )
