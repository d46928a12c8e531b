"""Tokens for Amazon MSK with IAM, by Amazon's signer (`kafkasource[aws]`): a signed request `kafka-cluster:Connect`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkasource.errors import OptionError, TokenNotAvailable
from kafkasource.kafka.security.endpoint import HttpClient
from kafkasource.kafka.security.tokens.token import AccessToken, token_of

_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:amazonaws\.com|vpce\.amazonaws\.com)", re.IGNORECASE)


def region_of(host: str) -> str | None:
    """The region in the name of an MSK broker: `b-1.name.x1.c2.kafka.eu-west-1.amazonaws.com`."""
    match = _REGION.search(host)
    return None if match is None else match[1].lower()


@dataclass(frozen=True)
class AwsToken:
    """Tokens of Amazon's signer, with the machine's credentials unless a profile or a role is named.

    A profile takes precedence over a role, as in Amazon's Java library (MSKCredentialProvider).
    """

    region: str
    profile: str | None = None
    role_arn: str | None = None
    role_session: str | None = None
    waits = True  # for AWS's metadata or token service
    origin = "Amazon's signer"

    def fetch(self, http: HttpClient, now_s: float) -> AccessToken:
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer
        except ImportError:
            raise OptionError(
                "kafka.auth=aws needs Amazon's signer: install kafkasource[aws] on driver and executors"
            ) from None
        try:
            if self.profile is not None:
                text, expires_ms = Signer.generate_auth_token_from_profile(self.region, self.profile)
            elif self.role_arn is not None:
                text, expires_ms = Signer.generate_auth_token_from_role_arn(
                    self.region, self.role_arn, self.role_session or "kafkasource"
                )
            else:
                text, expires_ms = Signer.generate_auth_token(self.region)
        except Exception as error:  # whatever botocore raises; its text may hold a request
            raise TokenNotAvailable(
                f"Amazon's signer gives no token ({type(error).__name__}): check the AWS credentials of this machine"
            ) from None
        return token_of(text, now_s, expires_ms / 1000 - now_s)
