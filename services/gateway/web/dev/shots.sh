#!/usr/bin/env bash
# Takes pictures of the gallery: shots.sh OUTDIR [STORY...]. Light, dark and phone.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "$1"); shift
stories=("$@")
[ ${#stories[@]} -gt 0 ] || stories=(inbox bash edit ask one write hidden long lots several plan mcp fields broken two end form unknown empty session session-free new history overview batch settings lost sending refused expired cli login always rule rules)
built=$(mktemp -d)
npx vite build --config dev/vite.config.ts --outDir "$built" --emptyOutDir --logLevel error
node node_modules/vite/bin/vite.js preview --config dev/vite.config.ts --outDir "$built" --port 4179 --strictPort >/dev/null 2>&1 &
server=$!
trap 'kill $server; rm -rf "$built"' EXIT
until curl -fs http://127.0.0.1:4179/ >/dev/null; do sleep 0.1; done
mkdir -p "$out"
shot() { # file, size, url
	local profile; profile=$(mktemp -d)
	chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync \
		--user-data-dir="$profile" --hide-scrollbars --window-size="$2" --virtual-time-budget=3000 --enable-logging=stderr --screenshot="$out/$1" "http://127.0.0.1:4179/$3" 2>&1 | grep -E 'CONSOLE|Refused' || true
	rm -rf "$profile"
}
for s in "${stories[@]}"; do
	shot "$s-light.png" 1280,900 "?story=$s"
	shot "$s-dark.png" 1280,900 "?story=$s&theme=dark"
	shot "$s-phone.png" 390,844 "phone.html?story=$s"
done
