#!/usr/bin/env bash
# Draws the icons of the installed app from public/favicon.svg.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
icon() { # file, size, share of the width that the drawing takes, background
	local inner=$(($2 * $3 / 100)) edge
	edge=$((($2 - inner) / 2))
	printf '<!doctype html><style>html,body{margin:0;background:%s}svg{position:absolute;left:%dpx;top:%dpx;width:%dpx;height:%dpx}</style>%s' \
		"$4" "$edge" "$edge" "$inner" "$inner" "$(cat public/favicon.svg)" >"$work/icon.html"
	chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --user-data-dir="$work/profile" \
		--hide-scrollbars --default-background-color=00000000 --window-size="$2,$2" --screenshot="$PWD/public/$1" "file://$work/icon.html" 2>/dev/null
}
icon icon-192.png 192 100 transparent
icon icon-512.png 512 100 transparent
# Of a maskable icon only the middle is certain to be seen.
icon icon-maskable-512.png 512 72 '#3b4ec4'
