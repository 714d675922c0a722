/** @module Content checks: the rules over two corpora, limits, the model, and a pause that holds queued mail. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { extractParts, PAUSE_SCORE, type Score, scoreContent } from '#features/reporting/abuse/content-rules.ts'
import { startContentWatch } from '#features/reporting/abuse/content-watch.ts'
import { createLog } from '#platform/log/log.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
// Honest mail as banks, shops and services send it, and typical phishing with invented hosts, in six languages.
import HONEST from '#test/corpus/abuse/honest.json' with { type: 'json' }
import PHISHING from '#test/corpus/abuse/phishing.json' with { type: 'json' }
import { eventually } from '#test/support/app.ts'
import { cpuMs } from '#test/support/cpu-time.ts'
import { createEmailApi } from '#test/support/email-api.ts'
import { startWatched, type Watched } from './fixture.ts'

// Events due within 30 s of the test clock may take longer on a busy machine.
setDefaultTimeout(90_000)

interface Sample {
  readonly from: string
  readonly subject: string
  readonly html?: string | undefined
  readonly text?: string | undefined
}

function judge({ from, subject, html = '', text = '' }: Sample): Score {
  const mailbox = parseMailbox(from)
  if (mailbox.kind === 'invalid') throw new Error(mailbox.reason)
  return scoreContent(extractParts({ subject, html, text }), { name: mailbox.name ?? '', domain: mailbox.domain })
}

test.each(HONEST)('honest mail does not pause: $subject', (sample) => {
  expect(judge(sample).points).toBeLessThan(PAUSE_SCORE)
})

test('at least nine in ten phishing samples pause the account', () => {
  const missed = PHISHING.filter((sample) => judge(sample).points < PAUSE_SCORE).map(({ subject }) => subject)
  expect(missed.length / PHISHING.length).toBeLessThanOrEqual(0.1)
})

test.each([
  ['a tab in the scheme', (html: string) => html.replace('"https://', '"ht&#9;tps://')],
  ['a character before it that browsers ignore', (html: string) => html.replace('"https://', '"\u0001 https://')],
  ['no scheme', (html: string) => html.replace('"https://', '"//')],
  [
    'a base element',
    (html: string) => `<base href="https://secure-paypal.login-check.xyz">${html.replace(/"https:[^"]*"/, '"/a"')}`,
  ],
])('a link with %s leads where a browser goes', (_, changed) => {
  const { subject, html_body } = PHISH
  const scoreOfHtml = (html: string) => judge({ from: 'a@sender.test', subject, html })
  expect(changed(html_body)).not.toBe(html_body)
  expect(scoreOfHtml(changed(html_body))).toEqual(scoreOfHtml(html_body))
})

describe('bounds', () => {
  const sender = { name: 'X', domain: 'x.test' }
  test.each([
    ['open tags', '<a href="https://paypal.evil.example/">'.repeat(50_000)],
    ['end tags without a start tag', `${'<b>'.repeat(50_000)}${'</i>'.repeat(50_000)}`],
    ['an attribute without an end', `<a href="${'x'.repeat(2_000_000)}`],
    ['blanks', ' '.repeat(2_000_000)],
    ['shown hosts without an end', `<a href="https://a.test">${'a.'.repeat(500_000)}</a>`],
    ['addresses', 'a@'.repeat(500_000)],
    [
      'hosts of many parts',
      Array.from({ length: 200 }, (_, i) => `<a href="https://${i}${'-a'.repeat(900)}.com/">x</a>`).join(''),
    ],
  ])('%s take at most some milliseconds', (_, html) => {
    const began = cpuMs()
    scoreContent(extractParts({ subject: 'x', html, text: html }), sender)
    expect(cpuMs() - began).toBeLessThan(1000)
  })
})

const PHISH = {
  subject: 'Your account has been limited',
  text_body: undefined,
  html_body:
    '<p>Write to carl@elsewhere.test. Verify your account within 24 hours.</p><a href="https://secure-paypal.login-check.xyz/a">https://www.paypal.com/</a>',
}

const paused = ({ app }: Pick<Watched, 'app'>) =>
  app.db
    .query<{ source: string; reason: string }, []>(
      'SELECT pause_source AS source, pause_reason AS reason FROM accounts WHERE paused_at IS NOT NULL',
    )
    .all()
const findings = ({ app }: Watched) =>
  app.db.query<{ source: string; paused: number }, []>('SELECT source, paused FROM abuse_findings ORDER BY id').all()
const passed = ({ app }: Watched) =>
  app.db.query<{ id: number }, []>('SELECT email_id AS id FROM content_cursor').get()?.id ?? 0

// Proves: account-15
test('an account that sends phishing is paused within 30 s, and its queued mail is held', async () => {
  await using service = await startWatched()
  const send_at = new Date(service.clock.now() + 60_000).toISOString()
  await service.accepted({ ...PHISH, to: 'yes-1@receiver.test', send_at })
  expect(await service.within30s(() => paused(service).length > 0)).toBeLessThanOrEqual(30_000)
  expect(paused(service)).toEqual([{ source: 'scam_classifier', reason: 'Some of its emails look like phishing.' }])
  // In steps: a lookup in progress must not time out immediately.
  await eventually(() => {
    service.clock.advance(1000)
    return service.app.db.query('SELECT 1 FROM held_accounts').all().length === 1
  })
  expect(service.sink.messages.flatMap(({ rcptTo }) => rcptTo)).not.toContain('yes-1@receiver.test')
  expect(findings(service)).toEqual([{ source: 'scam_classifier', paused: 1 }])
})

test('an email is checked again when its pause could not be stored', async () => {
  const lines: string[] = []
  const log = createLog('error', { write: (line) => void lines.push(line) })
  await using service = await createEmailApi({ log, settings: { TASSIS_PLANS: 'unlimited.abuse_watch=true' } })
  const { app, clock } = service
  await service.accepted(PHISH)
  app.db.run("CREATE TRIGGER broken BEFORE INSERT ON abuse_findings BEGIN SELECT RAISE(FAIL, 'no'); END")
  const watch = startContentWatch(app)
  await eventually(() => lines.some((line) => line.includes('a step failed')))
  expect(paused(service)).toEqual([])
  app.db.run('DROP TRIGGER broken')
  await eventually(() => {
    clock.advance(1000)
    return paused(service).length === 1
  })
  await watch.stop()
})

test('honest mail passes and leaves no finding', async () => {
  await using service = await startWatched()
  await service.accepted()
  await service.accepted({ ...PHISH, html_body: '<p>Hello</p>' })
  await service.within30s(() => passed(service) === 2)
  expect({ paused: paused(service), findings: findings(service) }).toEqual({ paused: [], findings: [] })
})

describe('when a model is configured', () => {
  const withModel = async (answer: () => Response | Promise<Response>) => {
    const asked: string[] = []
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      async fetch(request) {
        asked.push(await request.text())
        return answer()
      },
    })
    const service = await startWatched({
      TASSIS_LLM_URL: `http://127.0.0.1:${server.port}/v1`,
      TASSIS_LLM_MODEL: 'small',
      TASSIS_LLM_USES: 'phishing',
    })
    return {
      service,
      asked,
      [Symbol.asyncDispose]: async () => {
        await service[Symbol.asyncDispose]()
        await server.stop(true)
      },
    }
  }
  const says = (content: unknown) => () =>
    Response.json({ choices: [{ message: { content: JSON.stringify(content) } }] })

  test('its opinion decides: a no leaves only a finding; it gets text and links, but no address', async () => {
    await using at = await withModel(says({ phishing: false, confidence: 0.9 }))
    await at.service.accepted(PHISH)
    await at.service.within30s(() => at.asked.length === 1)
    expect(at.asked[0]).toContain('login-check.xyz')
    expect(at.asked[0]).toContain('[address]')
    expect(at.asked[0]).not.toMatch(/elsewhere\.test|receiver\.test|sender\.test/)
    await eventually(() => passed(at.service) === 1)
    expect({ paused: paused(at.service), findings: findings(at.service) }).toEqual({
      paused: [],
      findings: [{ source: 'scam_classifier', paused: 0 }],
    })
  })

  test.each([
    ['a yes', says({ phishing: true, confidence: 0.9 })],
    ['an invalid answer to an email with a high score', () => new Response('no', { status: 500 })],
  ])('%s pauses', async (_, answer) => {
    await using at = await withModel(answer)
    await at.service.accepted(PHISH)
    await at.service.within30s(() => paused(at.service).length === 1)
    expect(findings(at.service)).toEqual([
      { source: 'scam_classifier', paused: 0 },
      { source: 'scam_classifier', paused: 1 },
    ])
  })
})
