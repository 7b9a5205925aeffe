"""How often somebody may ask: token buckets, and one for each address."""

import ipaddress
import time
from collections import OrderedDict


class TokenBucket:
    """Full at first; each request takes one token, and an empty bucket is full again after a minute."""

    def __init__(self, per_minute: int, now: float | None = None) -> None:
        self.per_minute = per_minute
        """Requests allowed in a minute; 0: any number."""
        self._left = float(per_minute)
        self._checked = time.monotonic() if now is None else now

    def take(self, now: float) -> bool:
        """Whether one more request is allowed."""
        if not self.per_minute:
            return True
        self._left = min(self.per_minute, self._left + (now - self._checked) * self.per_minute / 60)
        self._checked = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class AddressLimits:
    """A bucket for each address; of more than `most` addresses the least recent ones are forgotten."""

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str, per_minute: int, now: float) -> bool:
        """Whether this address may ask once more."""
        if not per_minute:
            return True
        name = network_of(address)
        bucket = self._buckets.get(name)
        if bucket is None or bucket.per_minute != per_minute:
            bucket = self._buckets[name] = TokenBucket(per_minute, now)
        self._buckets.move_to_end(name)
        if len(self._buckets) > self.most:
            self._buckets.popitem(last=False)
        return bucket.take(now)


def network_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 network of an IPv6 address, which one client may have."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
