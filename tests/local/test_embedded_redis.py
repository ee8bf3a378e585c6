"""The embedded Redis: what is promised to the stack and to the tests."""

import stat
import subprocess
from pathlib import Path

import pytest
import redis

from app.local import embedded_redis
from app.local.embedded_redis import EmbeddedRedis, RedisError
from app.local.ports import free_port


def test_it_answers_with_the_password_only(tmp_path: Path) -> None:
    with embedded_redis.running(EmbeddedRedis(tmp_path, free_port(), "open")) as server:
        assert embedded_redis.answers(server.url)
        assert not embedded_redis.answers(EmbeddedRedis(tmp_path, server.port, "wrong").url)
    assert not embedded_redis.answers(server.url)


def test_it_keeps_nothing_over_a_restart(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path, free_port(), "open")
    with embedded_redis.running(server), redis.Redis.from_url(server.url) as client:
        client.set("hint", "1")
    with embedded_redis.running(server), redis.Redis.from_url(server.url) as client:
        assert client.get("hint") is None


def test_the_password_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path, free_port(), "a-secret")
    embedded_redis.prepare(server)
    assert stat.S_IMODE(server.config_file.stat().st_mode) == 0o600
    assert "a-secret" not in subprocess.list2cmdline(server.argv()) + repr(server)


def test_a_taken_port_is_reported(tmp_path: Path) -> None:
    with embedded_redis.running(EmbeddedRedis(tmp_path / "a", free_port(), "x")) as first:
        second = EmbeddedRedis(tmp_path / "b", first.port, "y")
        with pytest.raises(RedisError, match=str(first.port)), embedded_redis.running(second):
            raise AssertionError


def test_the_fixture_hands_out_an_empty_server(broker_url: str) -> None:
    with redis.Redis.from_url(broker_url) as client:
        assert client.dbsize() == 0
        client.set("left", "over")


def test_the_fixture_hands_out_an_empty_server_again(broker_url: str) -> None:
    with redis.Redis.from_url(broker_url) as client:
        assert client.dbsize() == 0
        client.set("left", "over")
