import type { Client } from "@banksman/client";
import type { DetailedHTMLProps, HTMLAttributes } from "react";

type Embedded = DetailedHTMLProps<HTMLAttributes<HTMLElement>, HTMLElement> & {
  src?: string;
  token?: string;
  transport?: "websocket" | "http";
  client?: Client;
  "onbanksman-pending"?: (e: CustomEvent<{ count: number }>) => void;
  "onbanksman-decided"?: (e: CustomEvent<{ key: string; outcome?: string; mine: boolean }>) => void;
};

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "banksman-inbox": Embedded;
      "banksman-interaction": Embedded & { interaction: string };
    }
  }
}
