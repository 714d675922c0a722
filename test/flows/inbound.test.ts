/**
 * @module Receives mail over real sockets: a Postfix submits hundreds of messages of the corpus over TLS. All are stored
 * as written, and their route's webhook receives each one, signed with the account's inbound secret.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type InboundEmail, inboundStatusName, listInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { revealInboundSecret } from '#features/webhooks/webhooks/manage/secrets.ts'
import { formatUuid } from '#platform/ids.ts'
import { systemClock } from '#platform/time/clock.ts'
import { eventually } from '#test/support/app.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { type HttpsReceiver, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { isPostfixAvailable, type Postfix, startPostfix } from '#test/support/postfix.ts'
import { createResolver } from '#test/support/resolver.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { findWebhookViolations } from '#test/support/webhook-verifier.ts'
import { CORPUS } from '../protocols/mime/corpus.ts'

const suite = describe.skipIf(!isPostfixAvailable())

const FOLDER = join(import.meta.dir, '../corpus/messages')
const HOOK_HOST = 'hooks.test'
const MESSAGES = 300
const SESSIONS = 8

/** Mail servers send lines with CRLF, whatever the file has, and remove NUL. */
const LINES_CHANGE: ReadonlySet<string> = new Set(['bare-lf', 'nul-octets'])

const NAMES = Object.keys(CORPUS)
const nameOf = (number: number): string => NAMES[number % NAMES.length] ?? ''

/** The octets after DATA: lines that begin with a dot get a second one, and all end with CRLF. */
const toWireForm = (message: Buffer): Buffer =>
  Buffer.from(
    `${message
      .toString('latin1')
      .replace(/\r?\n/g, '\r\n')
      .replace(/^\./gm, '..')
      .replace(/(\r\n)?$/, '\r\n')}.\r\n`,
    'latin1',
  )

async function submitAll(port: number, numbers: Iterator<number>): Promise<void> {
  await using client = await connectSmtp(port)
  await client.reply()
  await client.say('EHLO client.test')
  for (let { value, done } = numbers.next(); !done; { value, done } = numbers.next()) {
    await client.say('MAIL FROM:<ann@sender.example>')
    await client.say(`RCPT TO:<m${value}@inbound.test>`)
    await client.say('DATA')
    await client.write(toWireForm(readFileSync(join(FOLDER, `${nameOf(value)}.eml`))))
    expect(await client.reply()).toStartWith('250')
  }
}

const hashOf = (content: Uint8Array): string =>
  new Bun.CryptoHasher('sha256').update(content).digest('hex').slice(0, 16)

suite('a Postfix that submits hundreds of messages', () => {
  let postfix: Postfix
  let receiver: HttpsReceiver
  let dns: DnsServer
  let service: EmailApi
  let emails: InboundEmail[] = []
  beforeAll(async () => {
    receiver = await startHttpsReceiver({ names: [HOOK_HOST] })
    dns = await startDnsServer({
      [HOOK_HOST]: { A: ['127.0.0.1'] },
      'sender.example': { TXT: ['v=spf1 ip4:127.0.0.1 -all'] },
    })
    service = await createEmailApi({
      clock: systemClock,
      receives: true,
      sendsWebhooks: true,
      resolver: createResolver(dns),
      settings: {
        TASSIS_INBOUND_MESSAGES_PER_MINUTE: '100000',
        TASSIS_EXTRA_CA_FILE: receiver.caFile,
      },
    })
    postfix = await startPostfix({ mailboxes: [], relay: { port: service.inbound?.listener?.port ?? 0 } })
    const { app, actor, api } = service
    const { domain } = await createDomain(app, actor, 'inbound.test')
    app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE id = ?', [domain.id])
    const created = await api('POST', '/v1/inbound-routes', {
      domain_id: formatUuid(domain.uuid),
      pattern: 'm',
      match_type: 'prefix',
      webhook_url: receiver.url(HOOK_HOST, '/inbound'),
    })
    expect(created.status).toBe(201)
    const numbers = Array.from({ length: MESSAGES }, (_, number) => number).values()
    await Promise.all(Array.from({ length: SESSIONS }, () => submitAll(postfix.port, numbers)))
    const total = () => listInbound(app.db, actor.accountId, {}, { limit: 1, offset: 0 }).total
    await eventually(() => total() === MESSAGES && countQueueEntries(app.db) === 0, 120_000)
    await eventually(() => receiver.requests.length >= MESSAGES, 60_000)
    await eventually(
      () =>
        listInbound(app.db, actor.accountId, {}, { limit: MESSAGES, offset: 0 }).emails.every(
          ({ status }) => inboundStatusName(status) !== 'received',
        ),
      30_000,
    )
    emails = listInbound(app.db, actor.accountId, {}, { limit: MESSAGES, offset: 0 }).emails
  }, 300_000)
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]()
    await postfix?.[Symbol.asyncDispose]()
    await receiver?.[Symbol.asyncDispose]()
    await dns?.close()
  })

  const numberOf = ({ rcptTo }: InboundEmail): number => Number(/^m(\d+)@/.exec(rcptTo[0] ?? '')?.[1])

  // Proves: inbound-7, inbound-35
  test("has each stored once, accepted over TLS, with SPF checked, and claimed by its route's webhook", () => {
    expect(emails.map(numberOf).toSorted((a, b) => a - b)).toEqual(Array.from({ length: MESSAGES }, (_, n) => n))
    const facts = emails.map(({ status, tls, spfResult, mailFrom }) => [
      inboundStatusName(status),
      tls?.startsWith('TLSv1'),
      spfResult,
      mailFrom,
    ])
    expect(new Set(facts.map((fact) => JSON.stringify(fact)))).toEqual(
      new Set([JSON.stringify(['delivered', true, 'pass', 'ann@sender.example'])]),
    )
    expect(emails.every(({ webhookDeliveredAt }) => webhookDeliveredAt !== null)).toBe(true)
  })

  // Proves: inbound-4
  test('has every attachment stored octet by octet', () => {
    const wrong = emails.flatMap((email) => {
      const name = nameOf(numberOf(email))
      const expected = CORPUS[name]?.attachments.map(([filename, type, size, hash]) => [filename, type, size, hash])
      const found = email.attachments.map(({ filename, content_type, size, ref }) => {
        const content = service.app.content.get(ref)
        return [filename, content_type, size, hashOf(content)]
      })
      const isSame = LINES_CHANGE.has(name) ? found.length === expected?.length : Bun.deepEquals(found, expected)
      return isSame ? [] : [{ name, expected, found }]
    })
    expect(wrong.slice(0, 3)).toEqual([])
  })

  test('has each delivered to the webhook once, as in the API, signed with the inbound secret', async () => {
    const { app, actor } = service
    const secret = await revealInboundSecret(app, actor)
    const violations = receiver.requests.flatMap((request) =>
      findWebhookViolations(request, { secret, nowMs: request.receivedAt, accountId: actor.accountUuid }),
    )
    expect(violations.slice(0, 5)).toEqual([])
    const delivered = receiver.requests.map(({ text }) => ({ body: JSON.parse(text) as Record<string, unknown> }))
    const byId = new Map(delivered.map(({ body }) => [body['inbound_email_id'], body]))
    expect([delivered.length, byId.size]).toEqual([MESSAGES, MESSAGES])
    for (const email of emails) {
      const body = byId.get(formatUuid(email.uuid))
      expect(body).toMatchObject({
        event: 'email.inbound',
        account_id: actor.accountUuid,
        domain: 'inbound.test',
        subject: email.subject,
        message_id: email.messageId,
        source_ip: '127.0.0.1',
        authentication: { spf: 'pass' },
      })
      expect(body?.['attachments']).toBeArrayOfSize(email.attachments.length)
    }
  })
})
