/** @module The senders of the kill test: they post emails and remember, of each, what they were told. */
import { randomBytes } from 'node:crypto'
import type { Random } from './random.ts'
import { SENDER_DOMAIN } from './service.ts'
import { DEFERRED_PREFIX } from './sink.ts'

export const RECEIVER_DOMAIN = 'receiver.test'

/**
 * accepted: got its 202. refused: got another answer. unanswered: the connection ended first, so it may be stored or not.
 */
export type Told = 'accepted' | 'refused' | 'unanswered'

export interface Sent {
  /** Local part of its one recipient, and its X-Test-Id. */
  readonly id: string
  /** The receiver never lets it in. */
  readonly isDeferred: boolean
  told: Told
  /** Id that the answer gave. */
  emailId: string | undefined
  status: number | undefined
}

export interface Load {
  /** Resolves when all senders have ended; new requests are no longer made from the call on. */
  stop(): Promise<void>
}

const SENDERS = 12
const LONGEST_PAUSE_MS = 50
/** Large ones are in a file beside the content database, and larger than what sockets buffer. */
const LARGE = { probability: 0.04, bytes: 900_000 }
const DEFERRED_PROBABILITY = 0.03
/** Emails of one load, so that a slow machine can still deliver them in time. */
const MOST_EMAILS = 1000

/** Starts the senders; each remembers in `sent`. */
export function startLoad(url: string, key: string, random: Random, prefix: string, sent: Map<string, Sent>): Load {
  let isStopping = false
  let count = 0
  const send = async (): Promise<void> => {
    while (!isStopping && count < MOST_EMAILS) {
      const isDeferred = random.chance(DEFERRED_PROBABILITY)
      const id = `${isDeferred ? DEFERRED_PREFIX : ''}${prefix}-${++count}`
      const entry: Sent = { id, isDeferred, told: 'unanswered', emailId: undefined, status: undefined }
      sent.set(id, entry)
      try {
        const response = await fetch(`${url}/v1/emails`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify(emailOf(id, random)),
        })
        // The status alone is the promise; the body may be cut.
        entry.status = response.status
        entry.told = response.status === 202 ? 'accepted' : 'refused'
        const body = (await response.json()) as { data?: { id?: string } }
        entry.emailId = body.data?.id
      } catch {
        await Bun.sleep(5)
      }
      await Bun.sleep(random.between(0, LONGEST_PAUSE_MS))
    }
  }
  const senders = Array.from({ length: SENDERS }, send)
  return {
    async stop() {
      isStopping = true
      await Promise.all(senders)
    },
  }
}

function emailOf(id: string, random: Random) {
  const lines = Array.from({ length: random.between(1, 120) }, (_, line) => `Line ${line} of ${id}.`)
  return {
    from: `Kill Test <test@${SENDER_DOMAIN}>`,
    to: `${id}@${RECEIVER_DOMAIN}`,
    subject: `Test ${id}`,
    text_body: `${lines.join('\r\n')}\r\nEnd of ${id}.\r\n`,
    headers: { 'X-Test-Id': id },
    ...(random.chance(LARGE.probability) && {
      attachments: [
        {
          filename: 'noise.bin',
          content_type: 'application/octet-stream',
          content: randomBytes(LARGE.bytes).toString('base64'),
        },
      ],
    }),
  }
}
