import { Component, type ReactNode } from "react";

/** A part that cannot be drawn never takes its neighbours with it. */
export class ErrorBoundary extends Component<{ children: ReactNode; fallback: (error: Error, again: () => void) => ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override render(): ReactNode {
    if (this.state.error) return this.props.fallback(this.state.error, () => this.setState({ error: null }));
    return this.props.children;
  }
}
