import type { ComponentType, ReactNode } from "react";
import type { Say } from "@banksman/client";
import type { Draft, Item, Send } from "@banksman/client";
import type { CardKeys } from "./keys";

/** What a kind's renderer gets: no transport, no store. */
export interface KindProps {
  item: Item;
  send: Send | undefined;
  /** Buttons dead: an answer is on its way. */
  busy: boolean;
  /** Nothing can be sent now (no connection). */
  offline: boolean;
  draft: Draft;
  setDraft: (change: Partial<Draft>) => void;
  respond: (say: Say) => void;
  /** The renderer says what its keys do. */
  bindKeys: (keys: CardKeys) => void;
  /** Times and standing, to be drawn right above the actions. */
  notes: ReactNode;
}

export type Renderer = ComponentType<KindProps>;
