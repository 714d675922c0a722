/**
 * @module Debian's swaks as a client of the listener: every way of submitting a message, the replies of the session,
 * and what the API shows afterwards. Connects only to the listener of its own service.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { at } from '#test/support/api.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { HOST, INBOUND_DOMAIN, type PostOffice, startPostOffice } from './post-office.ts'

const isAvailable =
  process.env['CI'] === 'true' || process.env['REQUIRE_POSTFIX'] === 'true' || Bun.which('swaks') !== null
if (!isAvailable) console.warn('Tests with swaks are skipped: the package swaks is not installed')
const suite = describe.skipIf(!isAvailable)

const ANN = 'ann@receiver.test'
const SUPPORT = `support@${INBOUND_DOMAIN}`

suite('swaks', () => {
  let office: PostOffice
  let folder: string
  beforeAll(async () => {
    office = await startPostOffice()
    folder = mkdtempSync(join(tmpdir(), 'tassis-swaks-'))
  })
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true })
    expectBalanced(office)
    await office[Symbol.asyncDispose]()
  })

  interface Session {
    /** 0: accepted; 24: rejected at RCPT; 26: rejected at the final dot. */
    readonly exitCode: number
    /** Both sides, each line after swaks' mark; `~` means TLS. */
    readonly transcript: string
    /** Replies of 4xx and 5xx. */
    readonly refusals: readonly string[]
  }

  /** Resolves when the submitted mail is processed. */
  async function swaks(...options: readonly string[]): Promise<Session> {
    const server = ['--server', '127.0.0.1', '--port', String(office.inboundPort), '--ehlo', 'client.receiver.test']
    const child = Bun.spawn(['swaks', ...server, ...options], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
    const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
    await office.waitUntilProcessed()
    const transcript = stdout + stderr
    return {
      exitCode,
      transcript,
      refusals: transcript.split('\n').flatMap((line) => /^<(?:\*\*|~\*) +([45].*)$/.exec(line)?.[1] ?? []),
    }
  }

  const TAKEN = { exitCode: 0, refusals: [] }
  const outcome = ({ exitCode, refusals }: Session) => ({ exitCode, refusals })

  /** Inbound mail with a subject, as the API shows it. */
  async function shown(subject: string): Promise<Record<string, unknown>[]> {
    const { body } = await office.api('GET', '/v1/inbound?per_page=100')
    return (at(body, 'data') as Record<string, unknown>[]).filter((email) => email['subject'] === subject)
  }

  const bytesOf = async (path: string): Promise<Buffer> => {
    const answer = await fetch(`${office.url}${path}`, { headers: { authorization: `Bearer ${office.key}` } })
    expect(answer.status).toBe(200)
    return Buffer.from(await answer.arrayBuffer())
  }

  const letter = (subject: string, to = SUPPORT, from = ANN): string[] => [
    '--from',
    from,
    '--to',
    to,
    '--header',
    `Subject: ${subject}`,
  ]

  test('submits a message in plaintext, which the API shows unchanged', async () => {
    expect(outcome(await swaks(...letter('Plain'), '--body', 'Hello there.'))).toEqual(TAKEN)
    const [email, ...others] = await shown('Plain')
    expect(others).toEqual([])
    expect<unknown>(email).toMatchObject({
      status: 'no_route',
      mail_from: ANN,
      rcpt_to: [SUPPORT],
      from_address: ANN,
      to_addresses: [SUPPORT],
      message_id: expect.stringMatching(/^<.+>$/),
      attachments: [],
      source_ip: '127.0.0.1',
      spf_result: 'pass',
      error_message: null,
    })
    const detail = await office.api('GET', `/v1/inbound/${email?.['id']}`)
    expect(at(detail.body, 'data')).toMatchObject({
      text_body: 'Hello there.\n\n\n',
      html_body: null,
      raw_headers: { subject: 'Plain', from: ANN, to: SUPPORT, 'x-mailer': expect.stringContaining('swaks') },
    })
    const raw = (await bytesOf(`/v1/inbound/${email?.['id']}/raw`)).toString()
    expect(raw).toMatch(/^Return-Path: <ann@receiver\.test>\r\n/)
    expect(raw).toContain(`\r\n\tby ${HOST} with ESMTP;\r\n`)
    expect(raw).toEndWith('\r\n\r\nHello there.\r\n\r\n\r\n')
  })

  test('submits a message over TLS, as the trace field states', async () => {
    const session = await swaks(...letter('Secret'), '--tls')
    expect(outcome(session)).toEqual(TAKEN)
    expect(session.transcript).toMatch(/=== TLS started with cipher TLSv1\.[23]:/)
    expect(session.transcript).toMatch(/\n ~> MAIL FROM:/)
    const [email] = await shown('Secret')
    const raw = (await bytesOf(`/v1/inbound/${email?.['id']}/raw`)).toString()
    expect(raw).toMatch(/by mail\.tassis\.test with ESMTPS \(TLSv1\.[23] TLS_\w+\);/)
  })

  test('pipelines its commands, and gets the replies in order', async () => {
    const session = await swaks(...letter('Pipelined'), '--pipeline')
    expect(outcome(session)).toEqual(TAKEN)
    expect(session.transcript).toContain(
      [
        ` -> MAIL FROM:<${ANN}>`,
        ` -> RCPT TO:<${SUPPORT}>`,
        ' -> DATA',
        '<-  250 2.1.0 Accepted',
        '<-  250 2.1.5 Accepted',
        '<-  354 ',
      ].join('\n'),
    )
    expect(await shown('Pipelined')).toHaveLength(1)
  })

  test('attaches a file, which is stored byte for byte', async () => {
    const content = Buffer.from(Array.from({ length: 100_000 }, (_, index) => (index * 7 + (index >> 8)) % 256))
    const path = join(folder, 'data.bin')
    writeFileSync(path, content)
    const attach = ['--attach-type', 'application/x-data', '--attach-name', 'räport.bin', '--attach', `@${path}`]
    expect(outcome(await swaks(...letter('Attached'), '--attach-body', 'See there.', ...attach))).toEqual(TAKEN)
    const [email] = await shown('Attached')
    const attachments = at(email, 'attachments') as Record<string, unknown>[]
    const index = attachments.findIndex((each) => each['content_type'] === 'application/x-data')
    expect(attachments[index]).toMatchObject({ filename: 'räport.bin', size: content.length })
    expect((await bytesOf(`/v1/inbound/${email?.['id']}/attachments/${index}`)).equals(content)).toBe(true)
  })

  test('sends from the null reverse-path, which is accepted like any other', async () => {
    expect(outcome(await swaks(...letter('Null', SUPPORT, '<>')))).toEqual(TAKEN)
    expect(await shown('Null')).toMatchObject([{ mail_from: '', status: 'no_route', spf_result: 'none' }])
  })

  const MAILBOXES = ['postmaster', `abuse@${HOST}`]
  test.each(MAILBOXES)('sends to %s, which is stored for the operator and shown to no account', async (to) => {
    const subject = `To ${to}`
    expect(outcome(await swaks(...letter(subject, to)))).toEqual(TAKEN)
    expect(office.operatorMail().filter((mail) => mail.subject === subject)).toEqual([
      {
        kind: to.startsWith('abuse') ? 'abuse' : 'postmaster',
        to: to.includes('@') ? to : `postmaster@${HOST}`,
        subject,
        reason: 'The message is addressed to the operator.',
      },
    ])
    expect(await shown(subject)).toEqual([])
  })

  const REFUSED: readonly (readonly [what: string, to: string, reply: string])[] = [
    ['an unknown address of the host', `nobody@${HOST}`, '550 5.1.1 User unknown'],
    ['a foreign domain', 'bob@elsewhere.test', '550 5.7.1 Relay access denied'],
    ['a forged return path', `b-${'a'.repeat(32)}@send.sender.test`, '550 5.1.1 User unknown'],
    [
      'an address beyond ASCII without SMTPUTF8',
      `jürgen@${INBOUND_DOMAIN}`,
      '553 5.6.7 Non-ASCII address requires SMTPUTF8',
    ],
  ]
  test.each(REFUSED)(
    'sends to %s, which is rejected in the session, and nothing is stored',
    async (what, to, reply) => {
      const before = office.operatorMail().length
      expect(outcome(await swaks(...letter(what, to)))).toEqual({ exitCode: 24, refusals: [reply] })
      expect(await shown(what)).toEqual([])
      expect(office.operatorMail()).toHaveLength(before)
    },
  )

  test('cannot send to an address beyond ASCII, which is accepted with SMTPUTF8', async () => {
    const to = `jürgen@${INBOUND_DOMAIN}`
    expect(await office.submit({ mailFrom: ANN, to, raw: 'Subject: Beyond\r\n\r\nHi.\r\n' })).toEqual([
      '250 2.6.0 Message accepted',
    ])
    expect(await shown('Beyond')).toMatchObject([{ rcpt_to: [to] }])
  })

  test('sends to one valid and one unknown address, and submits for the first', async () => {
    const { exitCode, refusals } = await swaks(...letter('Both', `${SUPPORT},bob@elsewhere.test`))
    expect([exitCode, refusals]).toEqual([0, ['550 5.7.1 Relay access denied']])
    expect(await shown('Both')).toMatchObject([{ rcpt_to: [SUPPORT] }])
  })

  test('sends a message of 60 MB, which is read to its end and rejected; the next one is accepted', async () => {
    const path = join(folder, 'large.eml')
    writeFileSync(path, `Subject: Large\r\n\r\n${`${'x'.repeat(998)}\r\n`.repeat(60_000)}`)
    const { exitCode, refusals, transcript } = await swaks(
      '--from',
      ANN,
      '--to',
      SUPPORT,
      '--suppress-data',
      '--data',
      `@${path}`,
    )
    expect([exitCode, refusals]).toEqual([26, [expect.stringMatching(/^552 5\.3\.4 /)]])
    expect(transcript).toContain('<-  250 SIZE 41943040')
    expect(await shown('Large')).toEqual([])
    expect(outcome(await swaks(...letter('After the large one')))).toEqual(TAKEN)
  })
})
