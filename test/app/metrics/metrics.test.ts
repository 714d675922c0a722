import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import { eventually } from '#test/support/app.ts'
import { testCertificate } from '#test/support/scripted-smtp.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { type MeteredService, type Samples, startMeteredService } from './fixture.ts'

// A whole service starts and delivers.
setDefaultTimeout(300_000)

let metered: MeteredService
beforeAll(async () => {
  metered = await startMeteredService()
})
afterAll(() => metered[Symbol.asyncDispose]())

const send = async (to: string): Promise<void> => {
  const response = await metered.post('/v1/emails', { from: 'ada@sender.test', to, subject: 'Hello', text_body: 'Hi.' })
  if (response.status !== 202) throw new Error(await response.text())
}

/** Resolves with the first scrape in which every sample has grown by its number since `before`. */
const grown = (before: Samples, by: Readonly<Record<string, number>>): Promise<Samples> =>
  eventually(async () => {
    const now = await metered.scrape()
    return Object.entries(by).every(([name, more]) => now.get(name) === (before.get(name) ?? 0) + more) && now
  })

const attempts = (provider: string, outcome: string, category = ''): string =>
  `tassis_delivery_attempts_total{provider="${provider}",outcome="${outcome}",category="${category}"}`

// Proves: metrics-1
test('mail is counted from acceptance to outcome, by provider and category, without the name of a tenant', async () => {
  const before = await metered.scrape()
  await send('bob@receiver.test')
  await send('ann@gmail.com')
  await send('gone@gmail.com')
  await send('later@receiver.test')
  const after = await grown(before, {
    'tassis_emails_accepted_total{kind="single"}': 4,
    'tassis_recipients_accepted_total{kind="single"}': 4,
    'tassis_http_responses_total{code="202"}': 4,
    'tassis_events_total{type="queued"}': 4,
    'tassis_events_total{type="delivered"}': 2,
    [attempts('other', 'sent')]: 1,
    [attempts('gmail', 'sent')]: 1,
    [attempts('gmail', 'bounced', 'invalid_recipient')]: 1,
    [attempts('other', 'deferred', 'mailbox_full')]: 1,
    'tassis_delivery_attempt_seconds_count{provider="gmail"}': 2,
    'tassis_queue_recipients{provider="other"}': 1,
    'tassis_queue_recipients{provider="gmail"}': 0,
    tassis_queue_lanes: 1,
  })
  expect(after.get('tassis_queue_oldest_due_seconds{provider="other"}')).toBe(0)
  expect(after.get('tassis_commit_seconds_count{store="tassis"}')).toBeGreaterThan(4)
  expect(await metered.text()).not.toMatch(/sender\.test|receiver\.test|gmail\.com|Acme|mx\./)
})

// Proves: metrics-1
test('incoming mail is counted by the reply to its recipients and by its outcome', async () => {
  const before = await metered.scrape()
  await using client = await connectSmtp(metered.service.inbound.listener?.port ?? 0)
  await client.reply()
  for (const line of ['EHLO client.test', 'MAIL FROM:<ann@elsewhere.test>']) await client.say(line)
  expect(await client.say('RCPT TO:<bob@not-ours.test>')).toStartWith('550')
  expect(await client.say('RCPT TO:<postmaster@mail.tassis.test>')).toStartWith('250')
  await client.say('DATA')
  expect(await client.say('From: ann@elsewhere.test\r\nSubject: Hello\r\n\r\nHello.\r\n.')).toStartWith('250')
  const after = await grown(before, {
    'tassis_inbound_recipients_total{code="550"}': 1,
    'tassis_inbound_recipients_total{code="250"}': 1,
    'tassis_inbound_messages_total{outcome="accepted"}': 1,
  })
  expect(after.get('tassis_commit_seconds_count{store="raw-mail"}')).toBeGreaterThan(0)
  await eventually(async () => (await metered.scrape()).get('tassis_inbound_queue_messages') === 0)
})

// Proves: metrics-1
test('attempts of webhooks are counted by outcome', async () => {
  const before = await metered.scrape()
  for (const status of [200, 400]) {
    metered.hooks.answer({ status })
    const created = await metered.post('/v1/webhooks', { url: metered.hooks.url(), events: ['uncertain'] })
    expect(created.status).toBe(201)
    const { id } = ((await created.json()) as { data: { id: string } }).data
    expect((await metered.post(`/v1/webhooks/${id}/test`, {})).status).toBe(200)
    await grown(before, { tassis_webhook_attempt_seconds_count: status === 200 ? 1 : 2 })
  }
  await grown(before, {
    'tassis_webhook_attempts_total{outcome="delivered"}': 1,
    'tassis_webhook_attempts_total{outcome="permanent"}': 1,
  })
})

// Proves: metrics-1
test('the state of the machine is read at each scrape', async () => {
  const samples = await metered.scrape()
  for (const name of [
    'tassis_ready',
    'tassis_disk_free_bytes',
    'tassis_disk_size_bytes',
    'tassis_database_bytes',
    'tassis_memory_budget_bytes',
    'process_resident_memory_bytes',
    'process_cpu_seconds_total',
    'process_start_time_seconds',
  ])
    expect([name, samples.get(name)]).toEqual([name, expect.any(Number)])
  expect(samples.get('tassis_ready')).toBe(1)
  await eventually(async () => ((await metered.scrape()).get('tassis_event_loop_delay_seconds_count') ?? 0) > 1)
})

// Proves: metrics-1
test('the end of a certificate is known by its use', async () => {
  const samples = await metered.scrape()
  const { validTo } = new X509Certificate(testCertificate.cert)
  expect(samples.get('tassis_certificate_expiry_timestamp_seconds{use="smtp"}')).toBe(Date.parse(validTo) / 1000)
})

// Proves: metrics-2
test('concurrent scrapers share one reading, which is used for a second', async () => {
  const begunMs = performance.now()
  const texts = await Promise.all(Array.from({ length: 20 }, () => metered.text()))
  const seconds = (performance.now() - begunMs) / 1000
  // One from before, and at most one for each second that the requests took.
  expect(new Set(texts).size).toBeLessThanOrEqual(1 + Math.ceil(seconds))
})

// Proves: metrics-1
test('only GET of /metrics is served, in the text format, and the public API does not have it', async () => {
  const response = await fetch(metered.metricsUrl)
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/plain; version=0.0.4; charset=utf-8',
  ])
  const { origin } = new URL(metered.metricsUrl)
  expect((await fetch(`${origin}/`)).status).toBe(404)
  expect((await fetch(`${origin}/v1/emails`)).status).toBe(404)
  expect((await fetch(metered.metricsUrl, { method: 'POST', body: 'x' })).status).toBe(405)
  expect((await fetch(`${metered.service.url}/metrics`)).status).toBe(404)
})
