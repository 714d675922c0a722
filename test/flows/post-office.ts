/**
 * @module A service with mail in both directions, for tests over real sockets: what it sends arrives at a server that
 * stores each copy, what is submitted to its listener is fully processed, and what it sends to webhooks arrives over
 * TLS. Reads stored data; never changes it.
 */

import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { systemClock } from '#platform/time/clock.ts'
import { at } from '#test/support/api.ts'
import { eventually, type TestAppOptions } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { type HttpsReceiver, type ReceivedRequest, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { createResolver } from '#test/support/resolver.ts'
import { type ScriptedSession, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { connectSmtp, type RawSmtp } from '#test/support/smtp-client.ts'
import { findWebhookViolations } from '#test/support/webhook-verifier.ts'
import { readShape } from '../protocols/arf/shapes.ts'

export const HOST = 'mail.tassis.test'
/** Verified, and accepts mail. */
export const INBOUND_DOMAIN = 'inbound.test'
const HOOK_HOST = 'hooks.test'

/** A message as it arrived. */
export interface Copy {
  /** Return path. */
  readonly mailFrom: string
  readonly recipient: string
  /** Decoded as latin1. */
  readonly raw: string
  /** The value of a header field, unfolded; `''`: there is none. */
  header(name: string): string
}

export interface SentEmail {
  readonly id: string
  readonly messageId: string
  /** Returns the copy for a recipient, by address. */
  copyFor(recipient: string): Copy
}

/** A message for the listener. */
export interface Letter {
  /** Default: the null reverse-path. */
  readonly mailFrom?: string
  /** Several recipients share one transaction. */
  readonly to: string | readonly string[]
  readonly raw: string | Uint8Array
}

export interface Hook {
  readonly id: string
  /** Resolves with the received events once there are `count`, each signed and shaped as specified. */
  receivedEvents(count: number): Promise<Record<string, unknown>[]>
}

export interface PostOffice extends EmailApi {
  /** All received copies, oldest first. */
  readonly copies: readonly Copy[]
  /** Accepts a bulk email; resolves once every recipient is `sent`. */
  sendBulk(request: Readonly<Record<string, unknown>>): Promise<SentEmail>
  /**
   * Submits messages one by one; once all are processed, returns the reply to each, the one to RCPT if that was
   * rejected.
   */
  submit(...letters: readonly Letter[]): Promise<string[]>
  /** Creates a webhook of the account with a path of its own. */
  createHook(events: readonly string[]): Promise<Hook>
  /** Types of an email's events, oldest first. */
  eventTypes(id: string): Promise<string[]>
  /** Addresses on the suppression list with their reasons, oldest first. */
  suppressions(): Promise<{ address: string; reason: string; sourceEmailId: string | null }[]>
}

/** @param options override those of the service, such as a data directory to keep */
export async function startPostOffice(
  settings: Readonly<Record<string, string>> = {},
  options: TestAppOptions = {},
): Promise<PostOffice> {
  const copies: Copy[] = []
  const server = await startScriptedSmtp({
    body(_line, session) {
      copies.push(copyOf(session))
      return '250 2.0.0 Queued'
    },
  })
  const receiver = await startHttpsReceiver({ names: [HOOK_HOST] })
  const arriving = { A: ['127.0.0.1'] }
  const dns = await startDnsServer({
    'receiver.test': { ...arriving, TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
    [HOOK_HOST]: arriving,
    'provider.test': { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
  })
  const service = await createEmailApi({
    clock: systemClock,
    delivers: true,
    receives: true,
    sendsWebhooks: true,
    resolver: createResolver(dns),
    settings: {
      TASSIS_SMTP_PORT: String(server.port),
      TASSIS_PUBLIC_URL: `https://${HOST}`,
      TASSIS_EXTRA_CA_FILE: receiver.caFile,
      TASSIS_INBOUND_MESSAGES_PER_MINUTE: '100000',
      ...settings,
    },
    ...options,
  })
  const { app, api, actor } = service
  const { domain } = await createDomain(app, actor, INBOUND_DOMAIN)
  app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE id = ?', [domain.id])
  let hooks = 0
  return {
    ...service,
    copies,
    async sendBulk(request) {
      const accepted = await service.accepted({ transactional: false, ...request })
      await eventually(async () => {
        const { recipients } = (await service.detail(accepted.id)) as { recipients: { status: string }[] }
        return recipients.every(({ status }) => status === 'sent')
      })
      const messageId = String(accepted['message_id'])
      return {
        id: accepted.id,
        messageId,
        copyFor(recipient) {
          const copy = copies.find((each) => each.recipient === recipient && each.header('Message-ID') === messageId)
          if (!copy) throw new Error(`no copy of ${messageId} arrived for ${recipient}`)
          return copy
        },
      }
    },
    async submit(...letters) {
      const replies: string[] = []
      await using client = await connectSmtp(service.inbound?.listener?.port ?? 0)
      await client.reply()
      await client.say('EHLO out.provider.test')
      for (const letter of letters) replies.push(await submitOne(client, letter))
      await eventually(() => countQueueEntries(app.db) === 0, 110_000)
      return replies
    },
    async createHook(events) {
      const path = `/hook-${++hooks}`
      const created = await api('POST', '/v1/webhooks', { url: receiver.url(HOOK_HOST, path), events })
      if (created.status !== 201) throw new Error(`the webhook was not created: ${JSON.stringify(created.body)}`)
      const secret = String(at(created.body, 'data', 'secret'))
      return {
        id: String(at(created.body, 'data', 'id')),
        async receivedEvents(count) {
          const requests = await waitForRequests(receiver, path, count)
          const violations = requests.flatMap((request) =>
            findWebhookViolations(request, { secret, nowMs: request.receivedAt, accountId: actor.accountUuid }),
          )
          if (violations.length > 0) throw new Error(violations.join('; '))
          return requests.map(({ text }) => JSON.parse(text) as Record<string, unknown>)
        },
      }
    },
    async eventTypes(id) {
      const { events } = (await service.detail(id)) as { events: { type: string }[] }
      return events.map(({ type }) => type)
    },
    async suppressions() {
      const { body } = await api('GET', '/v1/suppressions?per_page=100')
      if (Number(at(body, 'pagination', 'total')) > 100) throw new Error('there are more than fit a page')
      return (at(body, 'data') as Record<string, string>[])
        .map((row) => ({
          address: row['email_address'] ?? '',
          reason: row['reason'] ?? '',
          sourceEmailId: row['source_email_id'] ?? null,
        }))
        .reverse()
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
      await receiver.close()
      await dns.close()
    },
  }
}

/** The message that a session has just finished. */
function copyOf({ commands, messages }: ScriptedSession): Copy {
  const pathOf = (verb: string) =>
    /<(.*?)>/.exec(commands.findLast((command) => command.toUpperCase().startsWith(verb)) ?? '')?.[1] ?? ''
  const raw = messages.at(-1)?.toString('latin1') ?? ''
  const header = `\r\n${raw.split('\r\n\r\n', 1)[0]}`.replace(/\r\n(?=[ \t])/g, '')
  return {
    mailFrom: pathOf('MAIL FROM:'),
    recipient: pathOf('RCPT TO:'),
    raw,
    header: (name) => new RegExp(`\r\n${name}: *(.*)`, 'i').exec(header)?.[1] ?? '',
  }
}

async function submitOne(client: RawSmtp, { mailFrom = '', to, raw }: Letter): Promise<string> {
  const recipients = [to].flat()
  const parameter = recipients.every((each) => /^[\0-\x7f]*$/.test(each)) ? '' : ' SMTPUTF8'
  await client.say(`MAIL FROM:<${mailFrom}>${parameter}`)
  for (const each of recipients) {
    const reply = await client.say(`RCPT TO:<${each}>`)
    if (reply.startsWith('250')) continue
    await client.say('RSET')
    return reply
  }
  await client.say('DATA')
  const text = Buffer.from(raw).toString('latin1').replace(/^\./gm, '..')
  await client.write(Buffer.from(`${text.replace(/(\r\n)?$/, '\r\n')}.\r\n`, 'latin1'))
  return client.reply()
}

const waitForRequests = ({ requests }: HttpsReceiver, path: string, count: number): Promise<ReceivedRequest[]> =>
  eventually(() => {
    const found = requests.filter(({ url }) => url === path)
    return found.length >= count && found
  })

/** A report of a complaint about a copy, in one of the shapes of providers. */
export function complaintAbout(copy: Copy, shape = 'standard', otherRecipient = 'nobody@provider.test'): Uint8Array {
  const [, unsubscribe = '', address = ''] =
    /<(https:[^>]+)>, <mailto:([^?]+)/.exec(copy.header('List-Unsubscribe')) ?? []
  return readShape(shape, {
    return_path: copy.mailFrom,
    recipient: copy.recipient,
    other_recipient: otherRecipient,
    to: copy.header('To'),
    message_id: copy.header('Message-ID'),
    unsubscribe,
    unsubscribe_address: address,
  })
}
