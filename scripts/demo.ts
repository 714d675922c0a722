/**
 * @module A service with a month of realistic mail, to look at: `bun scripts/demo.ts` prints the address of its dashboard
 * and how to sign in, and runs until Ctrl-C. Everything stays on this machine: receivers and DNS are at 127.0.0.1. Bob
 * Brown's emails have one of each outcome; the others make lists and charts as long as they are in real life.
 */
import { storeInsight } from '#features/reporting/insights/insights.ts'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { parseUuid } from '#platform/ids.ts'
import { days, hours, minutes, seconds } from '#platform/units.ts'
import { addComplaints } from '#test/features/receiving/complaints/fixture.ts'
import { at } from '#test/support/api.ts'
import { addContacts, newList } from '#test/support/broadcasts.ts'
import { startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { startHttpsReceiver } from '#test/support/https-receiver.ts'
import { storeTestInbound, type TestInbound } from '#test/support/inbound.ts'
import { AUTHENTICATION, deliverMessage, getTestMailbox } from '#test/support/mailboxes.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { signInAsOperator } from '#test/support/operator.ts'
import { type Reaction, type StepContext, startReceiver } from '#test/support/receiver.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'
import { createTestUser, PASSWORD } from '#test/support/users.ts'
import { seedServer, serves } from './demo-server.ts'

const DAYS = 30
const DOMAIN = 'mail.acme-shop.example'
export const OWNER = 'ada@acme-shop.example'
const MX = (host: string): Zone[string] => ({ MX: [{ preference: 10, exchange: host }] })
const HOSTS = ['gmail.com', 'outlook.com', 'web.de', 'gmx.net', 'orange.fr', 'company.example', 'proton.me']
const FIRST = [
  'Anna',
  'Ben',
  'Clara',
  'David',
  'Emma',
  'Felix',
  'Greta',
  'Hugo',
  'Ida',
  'Jonas',
  'Klara',
  'Leon',
  'Mia',
  'Noah',
  'Olga',
  'Paul',
]
const LAST = [
  'Schmidt',
  'Martin',
  'Bauer',
  'Dubois',
  'Fischer',
  'Rossi',
  'Weber',
  'Novak',
  'Meyer',
  'Jansen',
  'Wagner',
  'Silva',
]
const KINDS = [
  { subject: 'Your order {n} has been shipped', tags: ['order', 'shipping'] },
  { subject: 'Reset your password', tags: ['password'] },
  { subject: 'Invoice {n} from Acme Shop', tags: ['invoice'] },
  { subject: 'Confirm your email address', tags: ['welcome'] },
  { subject: 'Welcome to Acme Shop', tags: ['welcome'] },
  { subject: 'Your order {n} is confirmed', tags: ['order'] },
]

let seed = 7
/** The same numbers at each run, from 0 to below `n`. */
function pick(n: number): number {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
  return Math.floor((seed / 2_147_483_648) * n)
}

/** Receivers react by the local part. */
function react({ step, rcptTo, attempts }: StepContext): Reaction | undefined {
  if (step !== 'rcpt') return undefined
  const [local = ''] = rcptTo.split('@')
  if (/bounce|gone|bob\.brown\.old/.test(local))
    return '550 5.1.1 The email account that you tried to reach does not exist. gsmtp'
  if (/full/.test(local)) return "452 4.2.2 The recipient's inbox is out of storage space. gsmtp"
  if (/grey/.test(local) && attempts < 2) return '450 4.7.1 Greylisted, please try again in 300 seconds'
  if (/spammy/.test(local)) return '550 5.7.1 Message blocked due to spam content. See https://postmaster.example/'
  return undefined
}

interface DnsRecord {
  readonly type: string
  readonly host: string
  readonly value: string
  readonly priority?: number
}

/** Requests with faults that programs have in real life. */
async function refuse({ api, clock }: EmailApi, key: string, oldKey: string): Promise<void> {
  const email = { from: `Acme Shop <orders@${DOMAIN}>`, to: 'bob.brown@gmail.com', subject: 'Your order 20016' }
  const requests: readonly (readonly [method: string, path: string, body?: unknown, key?: string])[] = [
    ['POST', '/v1/emails', { ...email, text_body: 'Hello' }, oldKey],
    ['POST', '/v1/emails', { ...email, to: 'bob.brown@', text_body: 'Hello' }],
    ['POST', '/v1/emails', { ...email, from: 'orders@acme-shop.example', html_body: '<p>Hello</p>' }],
    ['POST', '/v1/emails', { ...email, template_alias: 'order-shiped', template_data: { name: 'Bob', total: 12 } }],
    ['POST', '/v1/emails', { from: email.from, to: [], subject: 7, send_at: 'tomorrow' }],
    ['GET', '/v1/emails?status=bounced'],
    ['GET', '/v1/emails/01a2276c-d2ab-76c9-8be2-cb88cbaecda3'],
    ['POST', '/v1/templates', { name: 'Invoice' }],
    ['GET', '/v1/suppressions'],
  ]
  for (const [method, path, body, by = key] of requests) {
    await api(method, path, body, { key: by, headers: { 'user-agent': 'acme-shop/4.2 (node 24.1)' } })
    clock.advance(seconds(20))
  }
}

export interface Demo extends AsyncDisposable {
  readonly service: EmailApi
  /** Ids in the paths of screens. */
  readonly ids: Readonly<Record<string, string>>
  readonly operatorCookie: string
}

export async function startDemo(): Promise<Demo> {
  const zone: Zone = {
    'mx.example.net': { A: ['127.0.0.1'] },
    ...Object.fromEntries(HOSTS.map((host) => [host, MX('mx.example.net')])),
    'server-down.example': { MX: [{ preference: 10, exchange: 'nothing.example.net' }] },
    'nothing.example.net': { A: ['127.0.0.3'] },
    'hooks.acme-shop.example': { A: ['127.0.0.1'] },
  }
  const dns = await startDnsServer(zone)
  const smtp = await startReceiver({ react })
  const hook = await startHttpsReceiver({ names: ['hooks.acme-shop.example'] })
  const clock = new ManualClock(Date.now() - days(DAYS) - hours(6))
  const settings = {
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(smtp.port),
    TASSIS_EXTRA_CA_FILE: hook.caFile,
    TASSIS_INBOUND_ADDR: '127.0.0.1:2525',
    TASSIS_LOGINS_PER_MINUTE: '10000',
  }
  const service = await createEmailApi({
    clock,
    delivers: true,
    runsTasks: true,
    sendsWebhooks: true,
    settings,
    serves: serves(settings),
  })
  const { app, api, actor } = service
  const data = async (method: string, path: string, body?: unknown): Promise<Record<string, unknown>> => {
    const answer = await api(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
    return at(answer.body, 'data') as Record<string, unknown>
  }
  const create = async (path: string, body: unknown, method = 'POST') => String((await data(method, path, body))['id'])
  /** Lets time pass in steps, and sockets do what they do. */
  const pass = async (ms: number, stepMs = minutes(5)) => {
    for (let left = ms; left > 0; left -= stepMs) {
      await quiet()
      clock.advance(Math.min(stepMs, left))
    }
    await quiet()
  }
  const quiet = async () => {
    // What waits for the clock is not waited for.
    for (let n = 0; n < 500; n++) {
      await Bun.sleep(2)
      if (!service.delivery?.scheduler.inFlight && !service.webhooks?.inFlight) return
    }
  }
  await data('PATCH', '/v1/account', { name: 'Acme Shop', timezone: 'Europe/Berlin' })
  app.db.run("UPDATE api_keys SET name = 'Deployment'")
  await createTestUser(app, actor, OWNER, 'owner')
  await createTestUser(app, actor, 'vera@acme-shop.example', 'viewer')
  await createTestUser(app, actor, 'dave@acme-shop.example', 'developer')
  await service.addDomain(actor, DOMAIN)
  const domainId = String(at((await api('GET', '/v1/domains')).body, 'data', 0, 'id'))
  const pending = await create('/v1/domains', { domain: 'news.acme-shop.example' })
  const covered = await create('/v1/domains', { domain: `receipts.${DOMAIN}` })
  zone['acme-shop.example'] = { NS: ['ada.ns.cloudflare.com', 'bob.ns.cloudflare.com'], TXT: ['v=spf1 mx -all'] }
  zone['mail.tassis.test'] = { A: ['127.0.0.1'] }
  zone['_dmarc.acme-shop.example'] = { TXT: ['v=DMARC1; p=quarantine; rua=mailto:dmarc@acme-shop.example'] }
  for (const [id, keys] of [
    [domainId, ['spf', 'dkim', 'return_path', 'mx']],
    [pending, ['dkim']],
  ] as const)
    for (const key of keys) {
      const { type, host, value, priority } = at(
        await data('GET', `/v1/domains/${id}`),
        'dns_records',
        key,
      ) as DnsRecord
      const there = zone[host]
      zone[host] = {
        ...(typeof there === 'object' && there),
        ...(type === 'MX' ? { MX: [{ preference: priority ?? 10, exchange: value }] } : { TXT: [value] }),
      }
    }
  zone['send.news.acme-shop.example'] = { TXT: ['v=spf1 include:_spf.other.example -all'] }
  await data('POST', `/v1/domains/${domainId}/verify`)
  await data('POST', `/v1/domains/${pending}/verify`)
  app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE domain = ?', [DOMAIN])
  app.db.run('UPDATE accounts SET tracking_default = 1')
  const welcome = await create('/v1/templates', {
    alias: 'welcome',
    name: 'Welcome',
    subject: 'Welcome to Acme Shop, {{ name }}',
    html_body:
      '<h1>Hello {{ name }}</h1><p>Thank you for joining Acme Shop. Your order {{ order.id }} of {{ order.total }} is on its way.</p><p><a href="https://acme-shop.example/start">Get started</a></p>',
    text_body: 'Hello {{ name }}',
    test_data: { name: 'Bob', order: { id: 20013, total: '€ 49.90' } },
  })
  await create('/v1/templates', {
    alias: 'order-shipped',
    name: 'Order shipped',
    subject: 'Your order {{ id }}',
    html_body: '<p>Shipped</p>',
  })
  const webhook = await create('/v1/webhooks', {
    url: hook.url('hooks.acme-shop.example', '/tassis'),
    events: ['delivered', 'bounced', 'complained'],
  })
  hook.answer(({ url }) =>
    url === '/billing' ? { status: 502, body: '<h1>502 Bad Gateway</h1>' } : { status: 200, body: '{"received":true}' },
  )
  const created = await data('POST', '/v1/api-keys', { name: 'Shop backend', scopes: ['emails:send', 'emails:read'] })
  const [apiKey, key] = [String(created['id']), String(created['key'])]
  const oldKey = await data('POST', '/v1/api-keys', { name: 'Old worker', scopes: ['emails:send'] })
  const list = await newList(service, 'Newsletter')
  await newList(service, 'Beta testers')
  await addContacts(
    app,
    list,
    Array.from({ length: 40 }, (_, n) => ({
      email: `${FIRST[n % 16]?.toLowerCase()}.${LAST[n % 12]?.toLowerCase()}${n}@${HOSTS[n % 7]}`,
      metadata: { name: FIRST[n % 16], city: 'Berlin' },
    })),
  )
  await addContacts(app, list, [{ email: 'bob.brown@gmail.com', metadata: { name: 'Bob' } }])
  const html = (title: string) =>
    `<div style="font-family:sans-serif;max-width:32rem;margin:auto;padding:24px"><h2>Acme Shop</h2><p>${title}</p><p>Thank you for shopping with us.</p><p><a style="background:#1a4fb4;color:#fff;padding:10px 16px;border-radius:6px;text-decoration:none" href="https://acme-shop.example/orders">View your order</a></p><p style="color:#777">Acme Shop, Market Street 1, Berlin</p></div>`
  const send = async (to: string, subject: string, more: Record<string, unknown> = {}) => {
    const email = {
      from: `Acme Shop <orders@${DOMAIN}>`,
      to,
      subject,
      html_body: html(subject),
      text_body: `${subject}\n\nThank you for shopping with us.`,
      ...more,
    }
    return at((await api('POST', '/v1/emails', email, { key })).body, 'data') as Record<string, unknown>
  }
  const visit = async (emailId: unknown, url?: string) => {
    const row = app.db
      .query<{ id: number }, [Uint8Array]>(
        'SELECT recipients.id FROM recipients JOIN emails ON emails.id = email_id WHERE uuid = ?',
      )
      .get(parseUuid(String(emailId)) ?? new Uint8Array())
    if (row)
      await app.commit.write((tx) =>
        recordEngagement(app, tx, {
          recipient: readTrackedRecipient(app.db, row.id),
          url,
          visitor: pick(4) === 0 ? 'machine' : 'human',
          ipAddress: '192.0.2.9',
          userAgent: 'Mozilla/5.0',
        }),
      )
  }
  const complaints = addComplaints(service)
  const complain = async (id: unknown) => {
    const row = app.db
      .query<{ emailId: number; id: number; address: string }, [Uint8Array]>(
        'SELECT emails.id AS emailId, recipients.id, address FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = ?',
      )
      .get(parseUuid(String(id)) ?? new Uint8Array())
    if (!row) return
    const messageId = String((await service.detail(id))['message_id'])
    const delivered = { id: String(id), messageId, emailId: row.emailId, recipients: [row] }
    await complaints.apply(await complaints.report('aol', delivered))
  }
  for (let day = 0; day < DAYS; day++) {
    const count = 4 + pick(6) + Math.floor(day / 6) + (day % 7 > 4 ? -3 : 0)
    for (let n = 0; n < count; n++) {
      const first = FIRST[pick(16)] ?? ''
      const last = LAST[pick(12)] ?? ''
      const host = HOSTS[pick(7)] ?? ''
      const kind = KINDS[pick(KINDS.length)]
      const luck = pick(60)
      const local = `${first}.${last}`.toLowerCase()
      const to =
        luck < 2
          ? `${local}.gone@${host}`
          : luck < 4
            ? `${local}.full@${host}`
            : luck < 7
              ? `${local}.grey@${host}`
              : luck < 8
                ? `${local}.spammy@${host}`
                : `${first} ${last} <${local}@${host}>`
      const subject = (kind?.subject ?? '').replace('{n}', String(10_000 + day * 20 + n))
      const sent = await send(to, subject, { tags: kind?.tags ?? [] })
      await pass(minutes(20 + pick(40)), minutes(10))
      if (pick(3) > 0) await visit(sent['id'])
      if (pick(4) === 0) await visit(sent['id'], 'https://acme-shop.example/orders')
      if (luck === 30) await complain(sent['id'])
    }
    const target = Date.now() - days(DAYS - day - 1) - hours(6)
    if (clock.now() < target) await pass(target - clock.now(), minutes(30))
  }
  const failingWebhook = await create('/v1/webhooks', {
    url: hook.url('hooks.acme-shop.example', '/billing'),
    description: 'Billing',
    events: ['delivered', 'bounced', 'failed'],
  })
  // Bob Brown's emails, one of each outcome.
  const bob: Record<string, string> = {}
  const tell = async (name: string, to: string, subject: string, more?: Record<string, unknown>) => {
    bob[name] = String((await send(to, subject, more))['id'])
    await pass(minutes(8), minutes(2))
  }
  await tell('complained', 'Bob Brown <bob.brown.work@outlook.com>', 'Our offers of the week')
  await complain(bob['complained'])
  await tell('complainedLater', 'Bob Brown <bob.brown.work@outlook.com>', 'Your order 20010 has been shipped')
  await tell('bounced', 'Bob Brown <bob.brown.old@gmail.com>', 'Reset your password')
  await tell('suppressed', 'Bob Brown <bob.brown.old@gmail.com>', 'Your order 20011 has been shipped')
  await tell('full', 'Bob Brown <bob.brown.full@gmail.com>', 'Invoice 20012 from Acme Shop')
  await tell('down', 'Bob Brown <bob.brown@server-down.example>', 'Your order 20013 is confirmed')
  await tell('grey', 'Bob Brown <bob.brown.grey@gmx.net>', 'Confirm your email address')
  await tell('unknownDomain', 'Bob Brown <bob.brown@gmial.invalid>', 'Confirm your email address')
  await tell('expired', 'Bob Brown <bob.brown.full@web.de>', 'Your login code is 481 222', { expires_in: 360 })
  await tell('delivered', 'Bob Brown <bob.brown@gmail.com>', 'Your order 20014 has been shipped', {
    tags: ['order', 'shipping'],
  })
  await visit(bob['delivered'])
  await tell('notSeen', 'Bob Brown <bob.brown@gmail.com>', 'Invoice 20015 from Acme Shop')
  await tell('scheduled', 'Bob Brown <bob.brown@gmail.com>', 'How was your order?', {
    send_at: new Date(clock.now() + days(1)).toISOString(),
  })
  await tell('sandbox', 'Bob Brown <bob.brown@gmail.com>', 'Test from a new domain', {
    from: 'news@news.acme-shop.example',
  })
  const team = (kind: string, count: number) =>
    Array.from({ length: count }, (_, n) => `team${n}${kind}@company.example`)
  bob['many'] = String(
    (
      await data('POST', '/v1/emails', {
        from: `Acme Shop <orders@${DOMAIN}>`,
        to: [...team('', 40), ...team('.full', 7), ...team('.gone', 3)],
        subject: 'Maintenance on Sunday',
        text_body: 'The shop is closed on Sunday morning.',
      })
    )['id'],
  )
  await pass(minutes(30), minutes(2))
  const letter = {
    list_id: list,
    from_address: `news@${DOMAIN}`,
    subject: 'November news',
    html_body: html('November news'),
  }
  const draft = await create('/v1/newsletters', letter)
  const sentLetter = await api('POST', `/v1/newsletters/${await create('/v1/newsletters', letter)}/send`, {})
  await create('/v1/suppressions', { email_address: 'no.more@web.de', reason: 'Asked by phone' })
  const form = await create('/v1/signup-forms', { list_id: list, title: 'Join our newsletter' })
  const stream = await create('/v1/streams', { slug: 'receipts', name: 'Receipts' })
  const sub = await create('/v1/accounts', {
    name: 'Acme Travel',
    email: 'sub@acme-shop.example',
    password: 'violin carpet thunder',
  })
  await create('/v1/team/invitations', { email: 'new.colleague@acme-shop.example', role: 'developer' })
  const inboundDomain =
    app.db.query<{ id: number }, [string]>('SELECT id FROM domains WHERE domain = ?').get(DOMAIN)?.id ?? 0
  const route = await create('/v1/inbound-routes', {
    domain_id: domainId,
    pattern: 'support',
    match_type: 'exact',
    webhook_url: hook.url('hooks.acme-shop.example', '/inbound'),
  })
  const receive = (from: string, address: string, subject: string, text: string, more: Partial<TestInbound> = {}) =>
    storeTestInbound(
      app,
      { accountId: actor.accountId, domainId: inboundDomain },
      {
        rcptTo: [`support@${DOMAIN}`],
        authentication: AUTHENTICATION,
        text,
        html: `<p>${text.replaceAll('\n\n', '</p><p>').replaceAll('\n', '<br>')}</p>`,
        ...more,
        message: { from: `${from} <${address}>`, fromAddresses: [address], to: `support@${DOMAIN}`, subject },
      },
    )
  const suspicious = await receive(
    'Acme Bank',
    'security@acme-bank.example',
    'Your account is locked',
    'Click here at once.',
    {
      authentication: { ...AUTHENTICATION, spf: 'fail', dkim: 'fail', dmarc: 'fail' },
    },
  )
  await receive('Greta Meyer', 'greta.meyer@web.de', 'Photo of the damaged box', 'Hello, here it is. Greta', {
    attachments: [{ filename: 'box.jpg', contentType: 'image/jpeg', content: new Uint8Array(84_000) }],
  })
  const received = await receive(
    'Bob Brown',
    'bob.brown@gmail.com',
    'Where is my order?',
    'Hello,\n\nwhere is my order 20013?\n\nBest regards,\nBob Brown',
  )
  const mailbox = await create('/v1/agent-mailboxes', { local_part: 'agent', domain_id: domainId })
  await deliverMessage(app, getTestMailbox(app, actor.accountId, mailbox), {
    from: 'Bob Brown <bob.brown@gmail.com>',
    subject: 'Question about invoice 20015',
    text: 'Hi, is VAT included?',
    html: '<p>Hi, is VAT included?</p>',
  })
  const threads = await api('GET', `/v1/agent-mailboxes/${mailbox}/threads`)
  await data('PATCH', '/v1/account', { name: 'Acme Shop' })
  await data('PUT', `/v1/streams/${stream}`, { name: 'Receipts and invoices' })
  await pass(minutes(10))
  await api('DELETE', `/v1/api-keys/${String(oldKey['id'])}`)
  await refuse(service, key, String(oldKey['key']))
  await app.commit.write((tx) =>
    storeInsight(app, tx, actor, {
      periodStart: clock.now() - days(28),
      periodEnd: clock.now(),
      model: 'claude-sonnet',
      inputTokens: 900,
      outputTokens: 300,
      summary:
        'Delivery is steady. Bounces are above what receivers tolerate, nearly all from addresses that do not exist.',
      findings: JSON.stringify([
        {
          severity: 'critical',
          area: 'deliverability',
          observation: 'The bounce rate is 7.6%.',
          recommendation: 'Keep it below 2%: confirm addresses when people sign up.',
        },
        {
          severity: 'warn',
          area: 'reputation',
          observation: 'Complaints are 2.4% of the delivered mail.',
          recommendation: 'Send offers only to who asked for them.',
        },
        {
          severity: 'info',
          area: 'performance',
          observation: '45% of the delivered mail was opened.',
          recommendation: 'Nothing to do.',
        },
      ]),
      rawMarkdown: '# Four weeks\n\nDelivery is steady.',
    }),
  )
  await pass(minutes(4), seconds(30))
  const deliveries = await api('GET', `/v1/webhooks/${webhook}/deliveries`)
  const logs = await api('GET', '/v1/logs?status=422')
  const server = await seedServer(service, DOMAIN)
  const operator = await signInAsOperator(service, 'olga@acme-shop.example')
  clock.advance(Math.max(0, Date.now() - clock.now()))
  const ticking = setInterval(() => clock.advance(200), 200)
  return {
    service,
    operatorCookie: operator.cookie,
    ids: {
      ...bob,
      ...server,
      welcome,
      webhook,
      failingWebhook,
      log: String(at(logs.body, 'data', 0, 'id')),
      logOfKey: String(at((await api('GET', '/v1/logs?status=401')).body, 'data', 0, 'id')),
      apiKey,
      list,
      draft,
      form,
      stream,
      sub,
      route,
      received,
      suspicious,
      mailbox,
      domain: domainId,
      broadcast: String(at(sentLetter.body, 'data', 'operation_id')),
      pending,
      covered,
      thread: String(at(threads.body, 'data', 0, 'id')),
      delivery: String(at(deliveries.body, 'data', 0, 'id')),
    },
    async [Symbol.asyncDispose]() {
      clearInterval(ticking)
      await service[Symbol.asyncDispose]()
      await smtp.close()
      await hook.close()
      await dns.close()
    },
  }
}

if (import.meta.main) {
  const started = Date.now()
  const demo = await startDemo()
  console.log(`${demo.service.url}/app  ${OWNER}  ${PASSWORD}   (${Date.now() - started} ms)`)
  console.log(JSON.stringify(demo.ids, null, 1))
  process.on('SIGINT', () => void demo[Symbol.asyncDispose]().then(() => process.exit()))
}
