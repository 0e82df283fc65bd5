#!/usr/bin/env bash
# Finds the version of Python that the environments of install need: the input, or on a machine of GitHub the version that the repository states.
# Where a step before has set Python up, that one stays.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=${PTMEM_PYTHON_VERSION:-}
if [ -z "$version" ] && [ "${RUNNER_ENVIRONMENT:-}" = github-hosted ] && [ -z "${pythonLocation:-}" ]; then
  version=$(ptmem init --print-python --folder "${PTMEM_WORKING_DIRECTORY:-.}" | tr -d '\r') || version=
  output found true
fi
output version "$version"
