/**
 * @module Attacks by remote clients and tenants on other tenants, each limited in time. Numbered after the faults found
 * by an audit; `attacker.ts` runs each in its own process.
 */
import { randomBytes } from 'node:crypto'
import { reactAt, startMisbehaving } from '#test/support/misbehaving.ts'
import type { Random } from '#test/support/random.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import {
  ATTACKER_RECEIVER,
  ATTACKER_RECEIVER_ADDRESS,
  HOSTNAME,
  TARPIT_COUNT,
  type Tenant,
  tarpitAddress,
  tarpitDomain,
} from './world.ts'

export interface AttackContext {
  readonly url: string
  readonly inboundPort: number
  readonly mxPort: number
  readonly attacker: Tenant
  /** Further tenants of the same attacker. */
  readonly others: readonly Tenant[]
  readonly honest: Tenant
  /** Messages of the honest tenant that a recipient could report. */
  readonly messages: readonly string[]
  readonly random: Random
  /** Count of each reply: an HTTP status, an SMTP code or `failed`. */
  readonly replies: Map<string, number>
  /** Aborted when the time has passed. */
  readonly signal: AbortSignal
}

export interface Attack {
  /** Number and letter of the fault. */
  readonly id: string
  readonly name: string
  /** Settings that the attack needs in place of the usual ones. */
  readonly settings?: Readonly<Record<string, string>>
  /** A path that is requested before: a run from sources makes what the executable contains. */
  readonly madeOnce?: string
  run(context: AttackContext): Promise<void>
}

type Json = Readonly<Record<string, unknown>>

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const countReply = ({ replies }: AttackContext, reply: string): void =>
  void replies.set(reply, (replies.get(reply) ?? 0) + 1)

/** Counts a failed request, which the defence caused, and pauses so as not to spin. */
async function recordFailure(context: AttackContext): Promise<void> {
  if (!context.signal.aborted) countReply(context, 'failed')
  await pause(20)
}

/** Repeats `act` until the time has passed, `width` at a time. */
async function repeatUntilEnd(
  context: AttackContext,
  width: number,
  act: (lane: number) => Promise<unknown>,
): Promise<void> {
  await Promise.all(
    Array.from({ length: width }, async (_, lane) => {
      while (!context.signal.aborted) await act(lane).catch(() => recordFailure(context))
    }),
  )
}

async function request(
  context: AttackContext,
  method: string,
  path: string,
  body?: Json | string,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; body: Json }> {
  const { url, signal, attacker } = context
  const response = await fetch(`${url}${path}`, {
    method,
    redirect: 'manual',
    headers: {
      authorization: `Bearer ${attacker.key}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    signal,
  })
  countReply(context, String(response.status))
  const text = await response.text()
  // A hostile program backs off only briefly after a refusal.
  if (response.status === 429 || response.status === 503 || response.status === 507) await pause(20)
  return { status: response.status, body: text.startsWith('{') ? (JSON.parse(text) as Json) : {} }
}

/** Creates what an attack needs and returns it. Throws when the request is refused: the attack would be void. */
async function prepare(context: AttackContext, path: string, body: Json): Promise<Record<string, string>> {
  const response = await request({ ...context, replies: new Map() }, 'POST', path, body)
  if (response.status !== 201) throw new Error(`POST ${path} was refused: ${JSON.stringify(response)}`)
  return response.body['data'] as Record<string, string>
}

/** Returns a random IPv4 address of a remote client, as a proxy reports it. */
const randomAddress = (random: Random): string => `203.0.${random.between(0, 255)}.${random.between(1, 254)}`

/** Creates a double opt-in list of the attacker with a public form that has a checkbox. */
async function createForm(context: AttackContext, tenant: Tenant, name: string): Promise<string> {
  const as = { ...context, attacker: tenant }
  const list = await prepare(as, '/v1/contact-lists', { name, double_opt_in: true })
  const form = await prepare(as, '/v1/signup-forms', {
    list_id: list['id'],
    title: name,
    from_address: `news@${tenant.domain}`,
    custom_fields: [{ name: 'agree', label: 'Agree', type: 'checkbox', required: false }],
  })
  return new URL(form['form_url'] ?? '').pathname
}

/** Submits a message made of pieces; resolves with the last reply. */
async function submit(
  context: AttackContext,
  envelope: { readonly from: string; readonly to: string; readonly localAddress: string },
  pieces: readonly string[],
): Promise<string> {
  const { inboundPort, signal } = context
  await using client = await connectSmtp(inboundPort, '127.0.0.1', { localAddress: envelope.localAddress })
  await client.reply()
  for (const line of ['EHLO mx.attacker.test', `MAIL FROM:<${envelope.from}>`, `RCPT TO:<${envelope.to}>`, 'DATA']) {
    const reply = await client.say(line)
    if (line === 'DATA' || !/^[23]/.test(reply)) countReply(context, reply.slice(0, 3))
    if (!/^[23]/.test(reply)) {
      await pause(50)
      return reply
    }
  }
  for (const piece of pieces) {
    if (signal.aborted) return ''
    await client.write(piece)
  }
  await client.write('\r\n.\r\n')
  const reply = await client.reply()
  countReply(context, reply.slice(0, 3))
  return reply
}

const MiB = 1024 * 1024
const BLANK_LINES = `${' '.repeat(998)}\r\n`.repeat(1024)

export const attacks: readonly Attack[] = [
  {
    id: '1a',
    name: 'forms with 60 kB of blanks for a checkbox, 4 at a time',
    async run(context) {
      const path = await createForm(context, context.attacker, 'Form')
      const body = new URLSearchParams({ email: 'a@example.com', agree: `${' '.repeat(60_000)}x` }).toString()
      await repeatUntilEnd(context, 4, () =>
        request(context, 'POST', path, body, {
          'content-type': 'application/x-www-form-urlencoded',
          'x-forwarded-for': randomAddress(context.random),
        }),
      )
    },
  },
  {
    id: '1b',
    name: 'requests with a cookie of 15 kB of blanks, 8 at a time',
    run: (context) =>
      repeatUntilEnd(context, 8, () =>
        fetch(`${context.url}/v1/account`, {
          headers: { cookie: `a=b;${' '.repeat(15_000)}x` },
          signal: context.signal,
        }).then((response) => {
          countReply(context, String(response.status))
          return response.arrayBuffer()
        }),
      ),
  },
  {
    id: '2',
    name: '28 addresses hold 20 SMTP sessions each with NOOP',
    async run(context) {
      await Promise.all(
        Array.from({ length: 28 * 20 }, async (_, index) => {
          while (!context.signal.aborted) {
            try {
              await using client = await connectSmtp(context.inboundPort, '127.0.0.1', {
                localAddress: `127.0.1.${(index % 28) + 1}`,
              })
              if (!(await client.reply()).startsWith('220')) throw new Error('refused')
              countReply(context, '220')
              while (!context.signal.aborted) {
                if (!(await client.say('NOOP')).startsWith('250')) break
                await pause(2000)
              }
            } catch {
              await recordFailure(context)
              await pause(200)
            }
          }
        }),
      )
    },
  },
  {
    id: '3',
    name: '40 attempts a second to sign in, from one IPv6 /56',
    async run(context) {
      const running: Promise<unknown>[] = []
      while (!context.signal.aborted) {
        const { random, honest } = context
        const group = (random.between(0, 255) + 0x4200).toString(16)
        const headers = { 'x-forwarded-for': `2001:db8:1:${group}::${random.between(1, 0xffff).toString(16)}` }
        const email = random.chance(0.5) ? honest.users[random.between(0, honest.users.length - 1)] : 'nobody@x.test'
        running.push(
          request(context, 'POST', '/v1/auth/login', { email, password: 'not the one of anybody' }, headers).catch(() =>
            recordFailure(context),
          ),
        )
        await pause(25)
      }
      await Promise.all(running)
    },
  },
  {
    id: '4',
    name: 'one Gmail mailbox in dot spellings, in the forms of 3 tenants',
    async run(context) {
      const paths: string[] = []
      for (const [index, tenant] of [context.attacker, ...context.others].slice(0, 3).entries())
        paths.push(await createForm(context, tenant, `Form ${index}`))
      let count = 0
      await repeatUntilEnd(context, 4, () => {
        const name = Array.from('victimmailbox', (letter, at) =>
          (++count >> (at % 12)) & 1 ? `${letter}.` : letter,
        ).join('')
        const body = new URLSearchParams({ email: `${name.replace(/\.$/, '')}@gmail.com` }).toString()
        return request(context, 'POST', paths[count % paths.length] ?? '', body, {
          'content-type': 'application/x-www-form-urlencoded',
          'x-forwarded-for': randomAddress(context.random),
        })
      })
    },
  },
  {
    id: '5',
    name: 'messages of 30 MB of blanks with ten signatures, 4 at a time',
    async run(context) {
      const signature = (index: number) =>
        `DKIM-Signature: v=1; a=rsa-sha256; c=${index % 2 ? 'relaxed' : 'simple'}/${index % 3 ? 'relaxed' : 'simple'}; ` +
        `d=attacker.test; s=s${index}; h=From; bh=${'A'.repeat(43)}=; b=${'A'.repeat(344)}\r\n`
      const head = `${Array.from({ length: 10 }, (_, index) => signature(index)).join('')}From: a@attacker.test\r\nSubject: x\r\n\r\n`
      await repeatUntilEnd(context, 4, (lane) =>
        submit(
          context,
          { from: 'a@attacker.test', to: `x@${context.attacker.domain}`, localAddress: `127.0.2.${lane + 1}` },
          [head, ...Array<string>(30).fill(BLANK_LINES)],
        ),
      )
    },
  },
  {
    id: '6',
    name: 'forged complaints about mail of the honest tenant',
    async run(context) {
      const { messages, random } = context
      await repeatUntilEnd(context, 2, async (lane) => {
        const original = messages[random.between(0, messages.length - 1)] ?? ''
        const head = original.slice(0, Math.max(0, original.indexOf('\r\n\r\n')))
        const report = [
          'From: fbl@provider.test',
          `To: fbl@${HOSTNAME}`,
          'Subject: complaint',
          'MIME-Version: 1.0',
          'Content-Type: multipart/report; report-type=feedback-report; boundary=b',
          '',
          '--b',
          'Content-Type: text/plain',
          '',
          'This is an email abuse report.',
          '--b',
          'Content-Type: message/feedback-report',
          '',
          'Feedback-Type: abuse',
          'User-Agent: Forger/1.0',
          'Version: 1',
          '',
          '--b',
          'Content-Type: text/rfc822-headers',
          '',
          head,
          '',
          '--b--',
        ].join('\r\n')
        await submit(
          context,
          { from: 'fbl@provider.test', to: `fbl@${HOSTNAME}`, localAddress: `127.0.2.${lane + 1}` },
          [report],
        )
        await pause(50)
      })
    },
  },
  {
    id: '7',
    name: 'messages of 3 MB to invented addresses of the honest tenant',
    settings: { TASSIS_DATA_MAX_BYTES: '96MiB' },
    run: (context) =>
      repeatUntilEnd(context, 2, (lane) => {
        // Incompressible, so that it occupies its full size.
        const lines = randomBytes(2_200_000).toString('base64').replace(/.{76}/g, '$&\r\n')
        return submit(
          context,
          {
            from: 'a@attacker.test',
            to: `invented${context.random.between(0, 1e6)}@${context.honest.domain}`,
            localAddress: `127.0.2.${lane + 1}`,
          },
          ['Subject: x\r\n\r\n', lines],
        )
      }),
  },
  {
    id: '8',
    name: 'emails of 2 MiB of text and of HTML and 20 MiB attached, to 50 recipients',
    async run(context) {
      await using _ = await startMisbehaving({ address: ATTACKER_RECEIVER_ADDRESS, port: context.mxPort })
      const text = 'Grüße aus Köln, größer als nötig. '.repeat(60_000).slice(0, 1_700_000)
      const body = JSON.stringify({
        from: `a@${context.attacker.domain}`,
        to: Array.from({ length: 50 }, (_, index) => `r${index}@${ATTACKER_RECEIVER}`),
        subject: 'Large',
        text_body: text,
        html_body: `<p>${text}</p>`,
        attachments: [
          {
            filename: 'noise.bin',
            content_type: 'application/octet-stream',
            content: Buffer.alloc(20 * MiB, 7).toString('base64'),
          },
        ],
      })
      await repeatUntilEnd(context, 2, async () => {
        await request(context, 'POST', '/v1/emails', body)
        await pause(500)
      })
    },
  },
  {
    id: '9',
    name: 'mail to 320 sites that never reply to the message',
    async run(context) {
      const tarpits = await Promise.all(
        Array.from({ length: TARPIT_COUNT }, (_, index) =>
          startMisbehaving({
            address: tarpitAddress(index),
            port: context.mxPort,
            react: reactAt('body', { end: 'silence' }),
          }),
        ),
      )
      let count = 0
      await repeatUntilEnd(context, 4, async () => {
        const emails = Array.from({ length: 80 }, () => ({
          from: `a@${context.attacker.domain}`,
          to: `r${++count}@${tarpitDomain(count % TARPIT_COUNT)}`,
          subject: 'Hold this',
          text_body: 'x',
        }))
        await request(context, 'POST', '/v1/emails/batch', { emails })
        await pause(200)
      })
      for (const tarpit of tarpits) await tarpit.close()
    },
  },
  {
    id: '10a',
    name: 'sandbox batches of 500 emails with 50 recipients, 4 at a time',
    // One batch exceeds the daily limit and is refused; the attack is on the fair scheduling of requests.
    run: (context) => {
      const email = (index: number) => ({
        from: `a@${context.attacker.sandboxDomain}`,
        to: Array.from({ length: 50 }, (_, at) => `r${index}-${at}@example.com`),
        subject: 'Batch',
        text_body: 'x',
      })
      const body = JSON.stringify({ emails: Array.from({ length: 500 }, (_, index) => email(index)) })
      return repeatUntilEnd(context, 4, () => request(context, 'POST', '/v1/emails/batch', body))
    },
  },
  {
    id: '10b',
    name: 'bulk adds of 10,000 contacts, 4 at a time',
    async run(context) {
      const list = await prepare(context, '/v1/contact-lists', { name: 'Bulk', double_opt_in: false })
      let count = 0
      await repeatUntilEnd(context, 4, () => {
        const from = ++count * 10_000
        const contacts = Array.from({ length: 10_000 }, (_, index) => ({ email: `c${from + index}@example.com` }))
        return request(context, 'POST', `/v1/contact-lists/${list['id']}/contacts`, { contacts })
      })
    },
  },
  {
    id: '10c',
    name: 'deep pages and exports of 50,000 contacts and 5,000 emails, 8 at a time',
    async run(context) {
      const list = await prepare(context, '/v1/contact-lists', { name: 'Deep', double_opt_in: false })
      for (let from = 0; from < 50_000 && !context.signal.aborted; from += 10_000) {
        const contacts = Array.from({ length: 10_000 }, (_, index) => ({ email: `c${from + index}@example.com` }))
        await request(context, 'POST', `/v1/contact-lists/${list['id']}/contacts`, { contacts })
      }
      const email = { from: `a@${context.attacker.sandboxDomain}`, to: 'r@example.com', subject: 'x', text_body: 'x' }
      for (let batch = 0; batch < 10 && !context.signal.aborted; batch++)
        await request(context, 'POST', '/v1/emails/batch', { emails: Array<Json>(500).fill(email) })
      const paths = [
        `/v1/contact-lists/${list['id']}/contacts?per_page=100&page=490`,
        '/v1/emails?per_page=100&page=49',
        `/v1/contact-lists/${list['id']}/contacts/export`,
        '/v1/account/export',
      ]
      await repeatUntilEnd(context, 8, (lane) => request(context, 'GET', paths[lane % paths.length] ?? ''))
    },
  },
  {
    id: '11',
    name: 'contacts with 10 kB of metadata each, 1,000 in a request, 2 at a time',
    async run(context) {
      const list = await prepare(context, '/v1/contact-lists', { name: 'Fill', double_opt_in: false })
      let count = 0
      await repeatUntilEnd(context, 2, () => {
        const from = ++count * 1000
        const contacts = Array.from({ length: 1000 }, (_, index) => ({
          email: `c${from + index}@example.com`,
          metadata: { note: 'x'.repeat(10_000) },
        }))
        return request(context, 'POST', `/v1/contact-lists/${list['id']}/contacts`, { contacts })
      })
    },
  },
  {
    id: '12a',
    name: 'messages to /mcp with 75,000 names, one at a time',
    run: (context) => postNames(context, 1, '/mcp', 75_000),
  },
  {
    id: '12b',
    name: 'messages to /mcp with 75,000 names, 8 at a time',
    run: (context) => postNames(context, 8, '/mcp', 75_000),
  },
  {
    id: '12c',
    name: 'messages to /mcp with 900 names, 8 at a time',
    run: (context) => postNames(context, 8, '/mcp', 900),
  },
  {
    id: '12d',
    name: 'emails with 190,000 names, 8 at a time',
    run: (context) => postNames(context, 8, '/v1/emails', 190_000),
  },
  {
    id: '12e',
    name: 'batches with 150,000 names in 500 items, 8 at a time',
    async run(context) {
      const email = (index: number) => ({
        from: `a@${context.attacker.sandboxDomain}`,
        to: 'r@example.com',
        template_data: createNames(300, `n${index}_`),
      })
      const body = JSON.stringify({ emails: Array.from({ length: 500 }, (_, index) => email(index)) })
      let count = 0
      await repeatUntilEnd(context, 8, () =>
        request(context, 'POST', '/v1/emails/batch', body, { 'idempotency-key': `names-${++count}` }),
      )
    },
  },
  {
    id: '12f',
    name: 'the API description and its pages, without a key, 8 at a time',
    madeOnce: '/docs',
    run: (context) =>
      repeatUntilEnd(context, 8, (lane) => request(context, 'GET', lane % 2 === 0 ? '/openapi.json' : '/docs')),
  },
]

const createNames = (count: number, prefix = 'n'): Json =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, 1]))

/** Posts a message with so many names, as MCP has them. */
function postNames(context: AttackContext, width: number, path: string, count: number): Promise<void> {
  const params = { _meta: createNames(count) }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params })
  const accept = 'application/json, text/event-stream'
  return repeatUntilEnd(context, width, () => request(context, 'POST', path, body, { accept }))
}
