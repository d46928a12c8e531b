"""The table of docs/servers.md: what tests/ran.json says of each server."""

import ran
from kafka_servers import OTHERS


def markdown_table() -> str:
    found = ran.results()["servers"]
    checks = ", ".join(found[OTHERS[0].name])
    works = [row.name for row in OTHERS if set(found[row.name].values()) == {"works"}]
    lines = ["| server | does not work | because | a user sees |", "|---|---|---|---|"]
    for row in OTHERS:
        failed = {check: said for check, said in found[row.name].items() if said != "works"}
        for why in dict.fromkeys(row.lacks[check] for check in failed):
            names = [check for check in failed if row.lacks[check] == why]
            said = next((f"`{failed[name]}`" for name in names if failed[name]), "no error")
            lines.append(f"| {row.name} | {', '.join(names)} | {why} | {said} |")
    return "\n".join([f"The checks: {checks}. All of them pass on {', '.join(works)}.", "", *lines])
