/** @module The senders of the kill test: post emails and record the response to each. */
import { randomBytes } from 'node:crypto'
import type { Random } from '#test/support/random.ts'
import { SENDER_DOMAIN } from './service.ts'
import { DEFERRED_PREFIX, REFUSED_PREFIX } from './sink.ts'

export const RECEIVER_DOMAIN = 'receiver.test'

/** accepted: 202. refused: another status. unanswered: the connection ended first, so the email may be stored. */
export type SendOutcome = 'accepted' | 'refused' | 'unanswered'

export interface Sent {
  /** Local part of its only recipient, and its X-Test-Id. */
  readonly id: string
  /** Whether the receiver always defers it. */
  readonly isDeferred: boolean
  outcome: SendOutcome
  /** Id from the response. */
  emailId: string | undefined
  status: number | undefined
}

export interface Load {
  /** Starts no further requests; resolves when all senders have ended. */
  stop(): Promise<void>
}

/** The mix of emails; `large`, `deferred` and `refused` are probabilities per email. */
export interface Mix {
  readonly maxPauseMs: number
  /** Maximum emails of one load, so that a slow machine can still deliver them in time. */
  readonly maxEmails: number
  readonly large: number
  readonly deferred: number
  readonly refused: number
}

const SENDER_COUNT = 12
/** Large emails are stored in a file beside the content database, and exceed socket buffers. */
const LARGE_BYTES = 900_000
const ORDINARY_MIX: Mix = { maxPauseMs: 50, maxEmails: 1000, large: 0.04, deferred: 0.03, refused: 0 }

/** Starts the senders, which record their emails in `sent`. */
export function startLoad(
  url: string,
  key: string,
  random: Random,
  prefix: string,
  sent: Map<string, Sent>,
  mix: Mix = ORDINARY_MIX,
): Load {
  let isStopping = false
  let count = 0
  const send = async (): Promise<void> => {
    while (!isStopping && count < mix.maxEmails) {
      const isDeferred = random.chance(mix.deferred)
      const isRefused = mix.refused > 0 && random.chance(mix.refused)
      const kind = isDeferred ? DEFERRED_PREFIX : isRefused ? REFUSED_PREFIX : ''
      const id = `${kind}${prefix}-${++count}`
      const entry: Sent = { id, isDeferred, outcome: 'unanswered', emailId: undefined, status: undefined }
      sent.set(id, entry)
      try {
        const response = await fetch(`${url}/v1/emails`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify(buildEmail(id, random, mix.large)),
        })
        // Only the status counts as a promise; the body may be cut off.
        entry.status = response.status
        entry.outcome = response.status === 202 ? 'accepted' : 'refused'
        const body = (await response.json()) as { data?: { id?: string } }
        entry.emailId = body.data?.id
      } catch {
        await Bun.sleep(5)
      }
      await Bun.sleep(random.between(0, mix.maxPauseMs))
    }
  }
  const senders = Array.from({ length: SENDER_COUNT }, send)
  return {
    async stop() {
      isStopping = true
      await Promise.all(senders)
    },
  }
}

function buildEmail(id: string, random: Random, large: number) {
  const lines = Array.from({ length: random.between(1, 120) }, (_, line) => `Line ${line} of ${id}.`)
  return {
    from: `Kill Test <test@${SENDER_DOMAIN}>`,
    to: `${id}@${RECEIVER_DOMAIN}`,
    subject: `Test ${id}`,
    text_body: `${lines.join('\r\n')}\r\nEnd of ${id}.\r\n`,
    headers: { 'X-Test-Id': id },
    ...(random.chance(large) && {
      attachments: [
        {
          filename: 'noise.bin',
          content_type: 'application/octet-stream',
          content: randomBytes(LARGE_BYTES).toString('base64'),
        },
      ],
    }),
  }
}
