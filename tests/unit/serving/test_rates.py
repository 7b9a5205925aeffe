"""How often somebody may ask: token buckets for keys and addresses."""

from qkv.serving.rates import AddressLimits, TokenBucket, network_of


def test_a_bucket_is_full_again_after_a_minute() -> None:
    bucket = TokenBucket(2, now=0.0)
    assert [bucket.take(now) for now in (0.0, 0.0, 0.0, 29.0, 30.0, 31.0, 91.0, 91.0, 91.0)] == [
        True, True, False, False, True, False, True, True, False,
    ]  # fmt: skip


def test_every_address_has_a_bucket_of_its_own_and_no_more_are_kept_than_allowed() -> None:
    limits = AddressLimits(most=3)
    assert [limits.take("192.0.2.1", 1, 0.0) for _ in range(2)] == [True, False]
    assert limits.take("192.0.2.2", 1, 0.0)
    for number in range(100):
        assert limits.take(f"198.51.100.{number}", 1, 0.0)
    assert len(limits) == 3
    assert limits.take("192.0.2.1", 0, 0.0), "0 is any number"


def test_a_changed_limit_holds_at_once() -> None:
    limits = AddressLimits()
    assert [limits.take("192.0.2.1", 1, 0.0) for _ in range(2)] == [True, False]
    assert [limits.take("192.0.2.1", 2, 0.0) for _ in range(3)] == [True, True, False]


def test_what_counts_as_one_client() -> None:
    assert network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db8:0:1::1")
    assert network_of("fe80::1%eth0") == network_of("fe80::2")
    assert network_of("not an address") == "not an address"
