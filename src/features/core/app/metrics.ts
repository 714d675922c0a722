/**
 * @module What the service counts while it works, for the operator's metrics. Features report here what happened;
 * `app/metrics` counts it for Prometheus. Never names an account, a domain or an address. Types, and the sink of a
 * service without metrics.
 */

/** How an attempt to deliver ended; `unsent`: it never began, or waits for its content, and counts as none. */
export type AttemptOutcome = 'sent' | 'bounced' | 'deferred' | 'uncertain' | 'failed' | 'unsent'

/** The databases with a committer of their own. */
export type CommittedStore = 'tassis' | 'content' | 'raw-mail' | 'capture'

/** Every call is cheap and never throws. */
export interface Metrics {
  /** An email was accepted and is on disk. */
  emailAccepted(kind: 'single' | 'broadcast' | 'sandbox', recipients: number): void
  /** Events are on disk. @param type a type of `EVENT_TYPES` */
  eventsRecorded(type: string, count: number): void
  /**
   * An attempt to deliver ended.
   * @param provider from `labelProvider`
   * @param category of the bounce or deferral; undefined for other outcomes
   * @param durationMs since its Worker got it; undefined when it did not get so far
   */
  attemptEnded(
    provider: string,
    outcome: AttemptOutcome,
    category: string | undefined,
    durationMs: number | undefined,
  ): void
  /** A group of writes is on disk, or failed to be. @param durationMs from its first write to the end of the sync */
  groupCommitted(store: CommittedStore, writes: number, durationMs: number): void
  /** A response of the HTTP server. */
  responseSent(status: number): void
  webhookAttempted(outcome: 'delivered' | 'transient' | 'permanent', durationMs: number): void
  /** The reply to a RCPT of incoming mail: 250, or the code of the rejection. */
  recipientDecided(code: number): void
  /** The reply to a message of incoming mail. */
  messageReceived(outcome: 'accepted' | 'deferred'): void
  /** The operator's rspamd was asked about a message; `unasked`: that waited too long, or too many did. */
  spamScanned(outcome: 'answered' | 'failed' | 'unasked', durationMs: number): void
  lineLogged(level: string): void
  /** Rows of so many bytes are in the log of the cluster. @param durationMs until PostgreSQL had stored them */
  appended(durationMs: number, bytes: number): void
}

const ignore = (): void => undefined

/** Counts nothing. */
export const NO_METRICS: Metrics = {
  emailAccepted: ignore,
  eventsRecorded: ignore,
  attemptEnded: ignore,
  groupCommitted: ignore,
  responseSent: ignore,
  webhookAttempted: ignore,
  recipientDecided: ignore,
  messageReceived: ignore,
  spamScanned: ignore,
  lineLogged: ignore,
  appended: ignore,
}
