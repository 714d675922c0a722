/**
 * @module The verdict of rspamd on incoming mail, over the SMTP listener: that of Debian's rspamd, and what becomes of
 * mail while rspamd is down, slow or lies.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { scanMessage } from '#features/receiving/received/spam.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'
import { createLog } from '#platform/log/log.ts'
import { seconds } from '#platform/units.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { GTUBE, isRspamdAvailable, type Rspamd, shareRspamdStub, startRspamd } from '#test/support/rspamd.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'

/** @param logged gets the lines of the log */
async function startService(url: string, logged: string[] = []): Promise<EmailApi> {
  const service = await createEmailApi({
    log: createLog('warn', { write: (line) => void logged.push(line) }),
    receives: true,
    settings: { TASSIS_RSPAMD_URL: url, TASSIS_RSPAMD_PASSWORD: 'secret' },
  })
  const { app, actor, api } = service
  const { domain } = await createDomain(app, actor, 'inbound.test')
  app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE id = ?', [domain.id])
  const route = { domain_id: formatUuid(domain.uuid), pattern: '*', match_type: 'catch_all' }
  expect((await api('POST', '/v1/inbound-routes', route)).status).toBe(201)
  return service
}

/** Sends messages over the listener and returns them as the API lists them, oldest first, once all are processed. */
/** @param isStarted what the clock, which the test moves, waits for */
async function receive({ app, api, inbound, clock }: EmailApi, bodies: readonly string[], isStarted = () => true) {
  await using client = await connectSmtp(inbound?.listener?.port ?? 0)
  await client.reply()
  await client.say('EHLO client.test')
  for (const [number, body] of bodies.entries()) {
    await client.say('MAIL FROM:<ann@sender.example>')
    await client.say(`RCPT TO:<m${number}@inbound.test>`)
    await client.say('DATA')
    expect(await client.say(`From: ann@sender.example\r\nSubject: m${number}\r\n${body}\r\n.`)).toStartWith('250')
  }
  await eventually(isStarted)
  // The clock runs some ten times as fast as real time.
  await eventually(() => countQueueEntries(app.db) === 0 || clock.advance(50), 20_000)
  const { body } = await api('GET', '/v1/inbound')
  return (at(body, 'data') as { id: string; spam: { verdict: string; score: number } | null }[]).toReversed()
}

describe.skipIf(!isRspamdAvailable())('with the rspamd of Debian', () => {
  let rspamd: Rspamd
  beforeAll(async () => {
    rspamd = await startRspamd()
  }, 60_000)
  afterAll(() => rspamd?.[Symbol.asyncDispose]())

  // Proves: inbound-46
  test('spam is stored with its verdict, in the list, its filter, the detail, the raw form and the webhook', async () => {
    await using service = await startService(rspamd.url)
    const { api, app } = service
    const messages = [
      'To: m0@inbound.test\r\nDate: Mon, 30 Nov 2026 00:00:00 +0000\r\nMessage-ID: <1@sender.example>\r\n\r\nHello.',
      `\r\n${GTUBE}`,
    ]
    // The time limit stands still while rspamd thinks.
    const [ham, spam] = await receive(service, messages, () => countQueueEntries(app.db) === 0)
    expect([ham?.spam?.verdict, spam?.spam?.verdict]).toEqual(['ham', 'spam'])
    expect(spam?.spam).toMatchObject({ score: 15, required: 15, symbols: [{ name: 'GTUBE' }] })
    for (const [verdict, id] of [
      ['spam', spam?.id],
      ['ham', ham?.id],
    ]) {
      const { body } = await api('GET', `/v1/inbound?spam=${verdict}`)
      expect([at(body, 'pagination', 'total'), at(body, 'data', 0, 'id')]).toEqual([1, id])
    }
    expect(at((await api('GET', '/v1/inbound?spam=suspect&from=ann@sender.example')).body, 'data')).toEqual([])
    expect(at((await api('GET', `/v1/inbound/${spam?.id}`)).body, 'data', 'spam', 'verdict')).toBe('spam')
    const raw = await fetch(`${service.url}/v1/inbound/${spam?.id}/raw`, {
      headers: { authorization: `Bearer ${service.key}` },
    })
    expect(await raw.text()).toMatch(/^X-Spam-Status: Yes, score=15\.0 required=15\.0\r\n\ttests=GTUBE\r\n/m)
    const { buildInboundPayload } = await import('#features/receiving/inbound/api/model.ts')
    expect(buildInboundPayload(app, service.actor.accountId, spam?.id ?? '')).toMatchObject({
      spam: { verdict: 'spam' },
    })
  })
})

const OPINION = {
  score: 7,
  required_score: 15,
  action: 'add header',
  symbols: { A: { score: 1 }, B: { score: 6, description: 'b' } },
}

describe('with a server in its place', () => {
  const stub = shareRspamdStub(OPINION)

  test('rspamd gets envelope, password and the message as received, and mailbox messages have the verdict', async () => {
    await using service = await startService(stub.url)
    const { api } = service
    const domain = at((await api('GET', '/v1/domains')).body, 'data', 0, 'id')
    expect((await api('POST', '/v1/agent-mailboxes', { local_part: 'm1', domain_id: domain })).status).toBe(201)
    stub.asked.length = 0
    const [email] = await receive(service, ['\r\nHello.', '\r\nHello.'])
    expect(email?.spam).toEqual({
      verdict: 'suspect',
      action: 'add header',
      score: 7,
      required: 15,
      symbols: [
        { name: 'B', score: 6, description: 'b' },
        { name: 'A', score: 1, description: null },
      ],
    } as never)
    const { headers, message } = stub.asked[0] ?? {}
    expect(['from', 'rcpt', 'helo', 'ip', 'password'].map((name) => headers?.get(name))).toEqual([
      '<ann@sender.example>',
      'm0@inbound.test',
      'client.test',
      '127.0.0.1',
      'secret',
    ])
    expect(message).toBe('From: ann@sender.example\r\nSubject: m0\r\n\r\nHello.\r\n')
    const mailbox = at((await api('GET', '/v1/agent-mailboxes')).body, 'data', 0, 'id')
    const { body } = await api('GET', `/v1/agent-mailboxes/${mailbox}/messages`)
    expect(at(body, 'data', 0, 'spam', 'verdict')).toBe('suspect')
  })

  // Proves: inbound-46
  test.each([
    ['responds with 500', () => new Response('no', { status: 500 }), 'it responded with 500'],
    ['responds with HTML', () => new Response('<html>'), 'its response is not that of rspamd'],
    [
      'responds with other JSON',
      () => Response.json({ score: 'x', symbols: [] }),
      'its response is not that of rspamd',
    ],
    ['responds with 50 MB', () => new Response(Buffer.alloc(50 << 20, ' ')), 'its response is larger than'],
  ])('mail is stored without a verdict while rspamd %s', async (_, answer, reason) => {
    stub.answer = answer
    const logged: string[] = []
    await using service = await startService(stub.url, logged)
    stub.asked.length = 0
    const emails = await receive(service, ['\r\n1', '\r\n2', '\r\n3', '\r\n4', '\r\n5', '\r\n6'])
    expect(emails.map(({ spam }) => spam)).toEqual([null, null, null, null, null, null])
    expect(logged.filter((line) => line.includes(reason)).length).toBeWithin(1, 7)
    // Then it is left alone for a minute, until one message finds it well.
    const before = stub.asked.length
    expect((await receive(service, ['\r\n7'])).at(-1)?.spam).toBeNull()
    expect(stub.asked.length).toBe(before)
    service.clock.advance(seconds(61))
    stub.answer = () => Response.json(OPINION)
    expect((await receive(service, ['\r\n8'])).at(-1)?.spam?.verdict).toBe('suspect')
  })

  test('mail waits 8 seconds at most for one that never responds, however much; nobody listening costs a second', async () => {
    stub.answer = () => new Promise(() => {})
    for (const [url, ms, count, asked] of [
      // As many as are asked about at once.
      [stub.url, 8000, 20, 8],
      ['http://127.0.0.1:9', 1000, 1, 0],
    ] as const) {
      await using service = await startService(url)
      const startedMs = service.clock.monotonicMs()
      stub.asked.length = 0
      const emails = await receive(service, Array(count).fill('\r\nHello.'), () => stub.asked.length >= asked)
      expect(emails.map(({ spam }) => spam)).toEqual(Array(count).fill(null))
      expect(service.clock.monotonicMs() - startedMs).toBeWithin(ms, ms + 5000)
    }
  })

  // Proves: inbound-46
  test('checks before sending that fail or wait leave the verdict on received mail alone, and are counted', async () => {
    await using service = await startService(stub.url)
    const { app, clock } = service
    const outcomes: string[] = []
    app.metrics.spamScanned = (outcome) => void outcomes.push(outcome)
    const envelope = { mailFrom: 'a@x.example', helo: 'x', rcptTo: [] }
    const check = () => scanMessage(app, Buffer.from('Subject: x\r\n\r\n'), envelope, 'draft')
    const settled = async <T>(work: Promise<T>): Promise<T> => {
      let isOver = false
      void work.finally(() => (isOver = true))
      while (!isOver) await Bun.sleep(1).then(() => clock.advance(100))
      return work
    }
    stub.answer = () => new Promise(() => {})
    const ended = await settled(Promise.all(Array.from({ length: 7 }, check)))
    expect(new Set(ended)).toEqual(new Set(['no response in time', 'too many messages wait for it']))
    expect(outcomes.toSorted()).toEqual([...Array(2).fill('failed'), ...Array(5).fill('unasked')])
    stub.answer = () => new Response('', { status: 500 })
    for (let n = 0; n < 3; n++) await settled(check())
    stub.answer = () => Response.json(OPINION)
    expect(await check()).toContain('it failed several times')
    expect((await receive(service, ['\r\nHi.']))[0]?.spam?.verdict).toBe('suspect')
  })

  test('bounces that reach an address of a tenant are judged, as they may be forwarded', async () => {
    stub.answer = () => Response.json(OPINION)
    await using service = await startService(stub.url)
    const report = `Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n--b\r\n\r\nNo.\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\nFinal-Recipient: rfc822; x@y.example\r\nAction: failed\r\nStatus: 5.1.1\r\n--b--`
    const [email] = await receive(service, [report])
    expect(email?.spam?.verdict).toBe('suspect')
  })
})
