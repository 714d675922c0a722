/**
 * @module Mail of the service itself to its users: invitations, password resets, notices. It leaves as an email of the account that has the sender's domain,
 * whatever that account's quota says and whether it is paused.
 */
import type { App } from '#features/app.ts'

export interface SystemMail {
  /** One address. */
  readonly to: string
  readonly subject: string
  readonly text: string
  readonly html?: string
  /** The same key sends once. */
  readonly idempotencyKey?: string
}

/** Accepts the email; resolves when it is on disk. Without a sender (`systemFrom`, or a verified domain here) it logs and gives false. */
export async function sendSystemMail(_app: App, _mail: SystemMail): Promise<boolean> {
  throw new Error('not yet')
}
