"""`autotune worker`: its words and options."""

from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner.cli import worker as actions
else:
    actions = Lazy("autotuner.cli.worker")


def worker(
    scheduler: Annotated[
        str, typer.Argument(metavar="SCHEDULER", help="tls://HOST:PORT, or tcp://127.0.0.1:PORT on this machine.")
    ],
    device: Annotated[
        str | None, typer.Option("--device", help="IREE device URI that it lends. [default: it only builds]")
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option("--resource", help="What coordinators call the device. [default: its model: H200, gfx942, cpu]"),
    ] = None,
    jobs: o.JobsOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What it is called in notes. [default: host and process]")
    ] = None,
    iree_tools: o.IreeToolsOption = None,
    insecure_cluster: o.InsecureOption = False,
    tls_ca_file: o.CaOption = None,
    tls_cert: o.CertOption = None,
    tls_key: o.KeyOption = None,
) -> None:
    """Build and time for `--cluster` runs. Without --device it only builds. Needs the extra `distributed`."""
    actions.run(
        scheduler,
        device=device,
        resource=resource,
        jobs=jobs,
        name=name,
        iree_tools=iree_tools,
        insecure=insecure_cluster,
        ca_file=tls_ca_file,
        cert=tls_cert,
        key=tls_key,
    )
