"""A real authorizer proves that each job's rights in the table are enough and that it needs each of them.

A user has all rights of its job's row, and one of them is denied. A denied right ends the job, and the error names the
resource and what to grant; or the job goes on as the row says.
"""

import re
import uuid

import pytest
import rights_jobs
from rights import JOBS

from kafkasource.errors import AuthorizationFailed
from kafkasource.testing.broker.security.acls import Acl

pytestmark = pytest.mark.broker

OTHERS = "somebody"  # has an ACL on all resources of the jobs, so every other user needs one


@pytest.fixture(scope="module")
def closed_broker(each_secured_broker):
    """The cluster itself is nobody's: no job of ours needs a right on it."""
    secured = each_secured_broker.secured
    closed = Acl(OTHERS, "all", "cluster", "kafka-cluster")
    secured.create_acls(closed)
    yield secured
    secured.delete_acls(closed)


def acls_of(world, right, operation, permission):
    return Acl(world.name, operation, right.resource, right.ids.format(w=world), right.pattern, permission)


@pytest.fixture(autouse=True)
def _what_jobs_keep_ends_with_their_test():
    yield
    rights_jobs.close_all()


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.run)
def test_a_job_needs_the_rights_of_its_row_and_says_which_one_is_missing(closed_broker, job, tmp_path):
    shared = f"r{uuid.uuid4().hex[:8]}"
    denials = [(right, operation) for right in job.rights for operation in right.denials()]
    runs = []
    for number, denied in enumerate([*denials, (None, "")]):
        user = f"{shared}-{number}"
        properties = closed_broker.client_properties("SASL_PLAINTEXT", "OAUTHBEARER", user)
        runs.append((rights_jobs.World(closed_broker, properties, tmp_path, user, shared), *denied))
    runs[0][0].prepare()
    acls = [Acl(OTHERS, "all", resource, shared, "prefixed") for resource in ("topic", "group", "transactional_id")]
    acls += [Acl(OTHERS, "all", "topic", f"mirror-offsets.{shared}", "prefixed")]
    for world, right, operation in runs:
        acls += dict.fromkeys(acls_of(world, need, need.operation, "allow") for need in job.rights)
        if right is not None:
            acls.append(acls_of(world, right, operation, "deny"))
    run = getattr(rights_jobs, job.run)
    closed_broker.create_acls(*acls)
    try:
        for world, right, operation in runs:
            if right is None:
                said = run(world)
                assert "AUTHORIZATION_FAILED" not in said
                assert all(need.hides.format(w=world) in said for need in job.rights)
            else:
                without(run, world, right, operation)
    finally:  # groups and topics stay, and other tests of the run list them
        closed_broker.delete_acls(*acls)


def without(run, world, right, operation):
    """Run a job where one operation on one of its resources is denied."""
    denied = f"{operation} on {right.resource} {right.ids.format(w=world)}"
    goes_on = right.shows if operation == right.operation else right.no_describe
    if right.hides:
        assert right.hides.format(w=world) not in run(world), denied
    elif goes_on:
        assert re.search(f"(?s){goes_on}", run(world)), denied
    else:
        with pytest.raises((AuthorizationFailed, rights_jobs.CommandFailed)) as ended:
            run(world)
        assert re.search(right.said(operation), str(ended.value)), f"{denied}: {ended.value}"
        assert right.ids.format(w=world) in str(ended.value), f"{denied}: {ended.value}"
        assert f"This client is logged in as {world.name!r}." in str(ended.value), f"{denied}: {ended.value}"
