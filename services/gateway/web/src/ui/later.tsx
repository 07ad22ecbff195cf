import { type ComponentType, lazy, useState } from "react";

export interface Later {
  preload(): Promise<void>;
}

/** A screen whose code is fetched when it is wanted, or preloaded. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> & Later {
  let here: ComponentType<P> | undefined;
  const fetched = () => load().then((View) => {
    here = View;
    return { default: View };
  });
  // One that did not come is asked for anew by whoever draws it next.
  let Waits: ComponentType<P>;
  const wait = () => {
    Waits = lazy(() => fetched().catch((e: unknown) => {
      wait();
      throw e;
    })) as unknown as ComponentType<P>;
  };
  wait();
  function Screen(props: P) {
    // What is there at once needs no waiting, and stays what it is.
    const [View] = useState(() => here ?? Waits);
    return <View {...props} />;
  }
  return Object.assign(Screen, { preload: () => fetched().then(() => undefined) });
}
