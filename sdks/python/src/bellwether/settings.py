"""Where the server is and who asks: given, or from the environment, as for the CLI."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

DEFAULT_SERVER = "127.0.0.1:2355"
DEFAULT_PORT = 2355


@dataclass(frozen=True)
class Settings:
    """How to reach a server."""

    bases: tuple[str, ...]
    """Where it is; of a cluster, where several of its nodes are."""
    token: str | None
    namespace: str | None
    ca_file: str | None

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        headers = {"user-agent": "bellwether-python/0.1.0"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        return headers

    def tls(self) -> ssl.SSLContext:
        """Trust the system's authorities, and those of the file if there is one."""
        context = ssl.create_default_context()
        if self.ca_file:
            context.load_verify_locations(self.ca_file)
        return context


def settings(
    server: str | None = None,
    token: str | None = None,
    namespace: str | None = None,
    ca_file: str | None = None,
) -> Settings:
    """Take what is given, else what the environment says."""
    env = os.environ.get
    return Settings(
        bases=base_urls(server or env("BELLWETHER_SERVER") or DEFAULT_SERVER),
        token=(token or env("BELLWETHER_TOKEN") or "").strip() or None,
        namespace=namespace or env("BELLWETHER_NAMESPACE") or None,
        ca_file=ca_file or env("BELLWETHER_CA_FILE") or None,
    )


def base_urls(servers: str) -> tuple[str, ...]:
    """Read one address, or several with commas between them."""
    return tuple(base_url(server) for server in servers.split(","))


def base_url(server: str) -> str:
    """Read `HOST`, `HOST:PORT` or a URL into the URL that paths are added to."""
    text = server.strip()
    has_scheme = "://" in text
    parts = urlsplit(text if has_scheme else f"http://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{server!r} is not the address of a server: write HOST:PORT or a URL")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{server!r} must have no user and no query; give the token apart")
    port = parts.port
    netloc = parts.netloc if has_scheme or port else f"{parts.netloc}:{DEFAULT_PORT}"
    return f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}"
