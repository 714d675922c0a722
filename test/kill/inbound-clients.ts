/** @module SMTP clients that submit messages to the service under the kill test and record the reply to each. */

import type { Random } from '#test/support/random.ts'
import { connectSmtp, type RawSmtp } from '#test/support/smtp-client.ts'

/** `accepted`: 250; `refused`: another reply; `unanswered`: the connection ended before a reply. */
export type SubmitOutcome = 'accepted' | 'refused' | 'unanswered'

export interface SubmittedMessage {
  /** Local part of its Message-ID. */
  readonly id: string
  readonly recipients: readonly string[]
  readonly sizeBytes: number
  /** Whether all of it was sent; without a reply it may have been accepted. */
  isWhole: boolean
  outcome: SubmitOutcome
}

export interface InboundClients {
  /** Returns the number of sessions that have sent part of a message and have no reply to it yet. */
  inData(): number
  /** Stops the clients; resolves when every session has ended. */
  stop(): Promise<void>
}

const CLIENT_COUNT = 12
/** Probability of a message so large that it is spooled. */
const LARGE_CHANCE = 0.04
const LARGE_BYTES = 700_000

export interface InboundClientOptions {
  readonly port: number
  readonly random: Random
  /** Prefix of the message ids. */
  readonly prefix: string
  /** Sets of recipients that the service accepts. */
  readonly recipients: readonly (readonly string[])[]
  /** Submitted messages by id. */
  readonly handed: Map<string, SubmittedMessage>
  /** Maximum pause of a client before a message; default: none. */
  readonly maxPauseMs?: number
}

/** Submits messages over several connections until stopped. */
export function startInboundClients(options: InboundClientOptions): InboundClients {
  let isStopping = false
  let inData = 0
  let createdCount = 0
  const sessions = new Set<RawSmtp>()

  const session = async (): Promise<void> => {
    await using client = await connectSmtp(options.port)
    sessions.add(client)
    try {
      await client.reply()
      await client.ask('EHLO hander.test', '250')
      for (let sent = 0; sent < 20 && !isStopping; sent++) {
        if (options.maxPauseMs !== undefined) await Bun.sleep(options.random.between(0, options.maxPauseMs))
        await submit(client)
      }
    } finally {
      sessions.delete(client)
    }
  }

  const submit = async (client: RawSmtp): Promise<void> => {
    const { random, recipients } = options
    const id = `${options.prefix}-${++createdCount}`
    const to = recipients[random.between(0, recipients.length - 1)] ?? []
    const message = buildMessage(id, to, random)
    const entry: SubmittedMessage = {
      id,
      recipients: to,
      sizeBytes: message.length,
      isWhole: false,
      outcome: 'unanswered',
    }
    options.handed.set(id, entry)
    for (const line of ['MAIL FROM:<ada@hander.test>', ...to.map((address) => `RCPT TO:<${address}>`), 'DATA']) {
      const reply = await client.say(line)
      if (reply === '') throw new Error('the connection was closed')
      if (/^[23]/.test(reply)) continue
      entry.outcome = 'refused'
      return
    }
    inData++
    try {
      const reply = await sendMessage(client, message, random, () => {
        entry.isWhole = true
      })
      entry.outcome = reply.startsWith('250') ? 'accepted' : 'refused'
    } finally {
      inData--
    }
  }

  const run = async (): Promise<void> => {
    while (!isStopping) {
      // Kills cut sessions off; the next session follows.
      await session().catch(() => Bun.sleep(5))
    }
  }
  const running = Array.from({ length: CLIENT_COUNT }, run)
  return {
    inData: () => inData,
    async stop() {
      isStopping = true
      for (const client of sessions) client.destroy()
      await Promise.all(running)
    },
  }
}

/**
 * Sends a message after the reply to DATA, in two parts; resolves with the reply to it and throws when there is none.
 * @param onWhole called just before the last part is written
 */
export async function sendMessage(
  client: RawSmtp,
  message: string,
  random: Random,
  onWhole: () => void = () => undefined,
): Promise<string> {
  const half = random.between(1, message.length - 1)
  const sent = client.write(message.slice(0, half))
  if (random.chance(0.3)) await Bun.sleep(random.between(1, 40))
  onWhole()
  await Promise.all([sent, client.write(`${message.slice(half)}\r\n.\r\n`)])
  const reply = await client.reply()
  if (reply === '') throw new Error('the connection was closed')
  return reply
}

function buildMessage(id: string, to: readonly string[], random: Random): string {
  const size = random.chance(LARGE_CHANCE) ? LARGE_BYTES : random.between(100, 4000)
  const line = `${'0123456789abcdef'.repeat(4)} ${id}\r\n`
  return [
    'From: Ada <ada@hander.test>',
    `To: ${to.join(', ')}`,
    `Subject: Number ${id}`,
    `Message-ID: <${id}@hander.test>`,
    '',
    line.repeat(Math.ceil(size / line.length)),
  ].join('\r\n')
}
