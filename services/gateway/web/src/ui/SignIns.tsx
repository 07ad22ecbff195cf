// Where this person is signed in, and the end of it.
import { useCallback } from "react";
import type { SignIn, SignInList } from "@banksman/client";
import { Verbatim } from "../cards/blocks";
import { clock } from "../cards/words";
import { useApp } from "./context";
import { Problem } from "./controls";
import { Sure, useList } from "./People";

const ways: Record<string, string> = { link: "A link from the terminal", cli: "A terminal", passkey: "A passkey", oidc: "The company’s account", test: "A test’s token" };

export function SignIns({ now }: { now: number }) {
  const { gateway } = useApp();
  const get = useCallback(() => gateway.call<SignInList>("GET", "/api/sign-ins").then((r) => r.sign_ins ?? []), [gateway]);
  const { list, problem, act } = useList<SignIn>(get);
  return (
    <div className="space-y-3">
      {problem !== "" && <Problem>{problem}</Problem>}
      {!list && problem === "" && <p role="status" className="text-soft">Fetching…</p>}
      {list && (
        <ul aria-label="Where you are signed in" className="divide-y divide-line">
          {list.map((s) => (
            <li key={s.id} data-testid={`sign-in-${s.id}`} className="flex flex-wrap items-start justify-between gap-2 py-3">
              <div className="min-w-0 flex-1">
                <p className="font-medium">{ways[s.via] ?? s.via}{s.name ? <>: <Verbatim text={s.name} /></> : null}{s.this ? <span className="text-soft"> (here)</span> : null}</p>
                <p className="text-sm text-soft">{s.last_seen ? `Last used ${clock(s.last_seen, now)}, from ${s.from}` : "Not seen since"}{s.first_from && s.first_from !== s.from ? `; first from ${s.first_from}` : ""}.</p>
                <p className="verbatim text-[13px] text-faint">Since {clock(s.created_at, now)}, until {clock(s.expires_at, now)}{s.agent ? <>. <Verbatim text={s.agent} /></> : null}</p>
              </div>
              {!s.this && <Sure label="End it" onSure={() => void act(() => gateway.call("DELETE", `/api/sign-ins/${encodeURIComponent(s.id)}`))} />}
            </li>
          ))}
        </ul>
      )}
      {list && list.length > 1 && <Sure label="End all others" onSure={() => void act(() => gateway.call("POST", "/api/logout/others", { body: {} }))} />}
    </div>
  );
}
