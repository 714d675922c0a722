import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { Actor } from '#features/core/app/app.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import { changeAutoResponder } from '#features/receiving/agent-mailboxes/auto-settings.ts'
import { createMailbox, findMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { listMessages } from '#features/receiving/agent-mailboxes/messages.ts'
import { listReports } from '#features/receiving/domain-reports/store.ts'
import {
  findInbound,
  inboundStatusCode,
  inboundStatusName,
  listInbound,
} from '#features/receiving/inbound/api/inbound-emails.ts'
import {
  type ParseRequest,
  type ParseResult,
  type Parser,
  ParserUnavailableError,
} from '#features/receiving/inbound/process/parser.ts'
import { InboundProcessor } from '#features/receiving/inbound/process/process.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { MAX_UNROUTED, MAX_UNROUTED_BYTES } from '#features/receiving/inbound/process/store.ts'
import { listOperatorMail } from '#features/receiving/postmaster/store.ts'
import type { Destination } from '#features/receiving/received/message.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createRoute } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { formatUuid } from '#platform/ids.ts'
import { createLog } from '#platform/log/log.ts'
import { minutes, seconds } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import { createTestAccount, createTestApp, eventually, type TestApp } from '#test/support/app.ts'
import { receiveTestMail } from '#test/support/inbound.ts'
import { startTestListener } from './listener-fixture.ts'

const MESSAGE: ParsedMessage = {
  headers: [
    ['Received', 'from a'],
    ['Received', 'from b'],
    ['Subject', 'Hello'],
  ],
  from: 'Ada <ada@sender.test>',
  to: 'support@inbound.test',
  cc: null,
  replyTo: null,
  fromAddresses: ['ada@sender.test'],
  toAddresses: ['support@inbound.test'],
  subject: 'Hello',
  messageId: '<1@sender.test>',
  inReplyTo: null,
  references: [],
  dateMs: null,
  text: 'Hello.',
  html: '<p>Hello.</p>',
  attachments: [
    {
      filename: 'a.bin',
      contentType: 'application/octet-stream',
      contentId: null,
      disposition: 'attachment',
      content: new Uint8Array([1, 2, 3]),
    },
  ],
  isAutomatic: false,
}
const PARSED: ParseResult = { message: MESSAGE, strippedText: null, authentication: UNKNOWN_AUTHENTICATION }
const UNPARSED: ParseResult = {
  problem: 'Too deep.',
  strippedText: null,
  authentication: UNKNOWN_AUTHENTICATION,
}

/** A parser with the results of the test. */
function createStubParser(
  answer: (request: ParseRequest) => Promise<ParseResult>,
): Parser & { readonly asked: ParseRequest[] } {
  const asked: ParseRequest[] = []
  return {
    asked,
    parse(request, onParsed) {
      asked.push(request)
      onParsed?.(0)
      return answer(request)
    },
    close: () => undefined,
  }
}

let service: TestApp
let actor: Actor
let domainId = 0
let domainUuid = ''
let processors: InboundProcessor[] = []
beforeEach(async () => {
  service = await createTestApp()
  actor = await createTestAccount(service.app)
  const { domain } = await createDomain(service.app, actor, 'inbound.test')
  service.app.db.run('UPDATE domains SET verified_at = 1, inbound_enabled = 1')
  domainId = domain.id
  domainUuid = formatUuid(domain.uuid)
})
afterEach(async () => {
  for (const processor of processors) await processor.stop(0)
  processors = []
  await service[Symbol.asyncDispose]()
})

const route = (pattern: string) =>
  createRoute(service.app, actor, {
    domainId: domainUuid,
    pattern,
    matchType: 'exact',
    priority: 0,
    webhookUrl: null,
    isActive: true,
  })

const to = (...localParts: string[]): Destination[] =>
  localParts.map((localPart) => ({
    kind: 'domain',
    address: `${localPart}@inbound.test`,
    accountId: actor.accountId,
    domainId,
  }))

const accept = (
  destinations: readonly Destination[],
  text = 'Subject: Hello\r\n\r\nHello.\r\n',
  facts?: Parameters<typeof receiveTestMail>[3],
) => receiveTestMail(service.app, destinations, text, facts)

function begin(parser: Parser): InboundProcessor {
  const processor = new InboundProcessor(service.app, parser)
  processors.push(processor)
  processor.start()
  return processor
}

/** Runs a test with retry delays of milliseconds. */
async function runOutOfTime(run: () => Promise<void>): Promise<void> {
  const { clock } = service.app
  const { after } = clock
  const soon = (delayMs: number): number =>
    delayMs >= seconds(5) && delayMs <= minutes(5) && delayMs !== seconds(8) ? 5 : delayMs
  Object.defineProperty(clock, 'after', {
    configurable: true,
    value: (delayMs: number, then: () => void) => after.call(clock, soon(delayMs), then),
  })
  try {
    await run()
  } finally {
    Object.defineProperty(clock, 'after', { configurable: true, value: after })
  }
}

/** Attempts of the queue entries, in order. */
const attempts = () =>
  service.app.db
    .query<{ attempts: number }, []>('SELECT attempts FROM inbound_receipts ORDER BY id')
    .all()
    .map((row) => row.attempts)

/** Ends a processor like the death of the process: counted attempts stay. */
async function kill(processor: InboundProcessor): Promise<void> {
  const { commit } = service.app
  const { writeFromReserve } = commit
  Object.defineProperty(commit, 'writeFromReserve', {
    configurable: true,
    value: () => Promise.reject(new Error('dead')),
  })
  await processor.stop(0)
  Object.defineProperty(commit, 'writeFromReserve', { configurable: true, value: writeFromReserve })
}

/** Lets the process die while this many messages are being parsed; returns how many the parser got. */
async function die(inHand: number): Promise<number> {
  const stuck = createStubParser(() => new Promise(() => {}))
  const processor = begin(stuck)
  await eventually(() => stuck.asked.length === inHand)
  await kill(processor)
  return stuck.asked.length
}

const stored = () =>
  listInbound(service.app.db, actor.accountId, {}, { limit: 100, offset: 0 }).emails.map((email) => ({
    rcptTo: email.rcptTo,
    status: inboundStatusName(email.status),
    route: email.routeUuid !== null,
    subject: email.subject,
  }))

const processed = (count: number) =>
  eventually(() => countQueueEntries(service.app.db) === 0 && stored().length === count && stored())

const inboundEvents = () =>
  service.app.db
    .query<{ data: string }, []>("SELECT data FROM events WHERE data LIKE '%inbound_email_id%' ORDER BY seq")
    .all()

describe('a message for a domain', () => {
  // Proves: inbound-7
  test('is stored under its route with all parts, and emits one event', async () => {
    await route('support')
    begin(createStubParser(async () => PARSED))
    await accept(to('support'))
    expect(await processed(1)).toEqual([
      { rcptTo: ['support@inbound.test'], status: 'received', route: true, subject: 'Hello' },
    ])
    const [event] = inboundEvents()
    const { inbound_email_id: id } = JSON.parse(event?.data ?? '{}') as { inbound_email_id: string }
    expect(inboundEvents()).toHaveLength(1)
    const email = findInbound(service.app.db, actor.accountId, id)
    if (!email) throw new Error('the event names no inbound email')
    expect([
      createBodyReader(service.app).read(email.textRef),
      createBodyReader(service.app).read(email.htmlRef),
    ]).toEqual(['Hello.', '<p>Hello.</p>'])
    expect(JSON.parse(createBodyReader(service.app).read(email.headersRef) ?? '')).toEqual(MESSAGE.headers)
    const [attachment] = email.attachments
    expect(attachment).toMatchObject({ filename: 'a.bin', size: 3 })
    expect(service.app.content.get(attachment?.ref ?? 0)).toEqual(new Uint8Array([1, 2, 3]))
    expect(Buffer.from(service.app.rawMail.get(email.rawRef)).toString()).toBe('Subject: Hello\r\n\r\nHello.\r\n')
  })

  // Proves: inbound-7
  test('without a route is stored without an event', async () => {
    begin(createStubParser(async () => PARSED))
    await accept(to('nobody'))
    expect(await processed(1)).toEqual([
      { rcptTo: ['nobody@inbound.test'], status: 'no_route', route: false, subject: 'Hello' },
    ])
    expect(inboundEvents()).toEqual([])
  })

  test('is one inbound email for each route, however many recipients match it', async () => {
    await route('support')
    await route('sales')
    begin(createStubParser(async () => PARSED))
    await accept(to('support', 'sales', 'support+2', 'x', 'y'))
    expect((await processed(3)).toSorted((a, b) => a.rcptTo.length - b.rcptTo.length)).toEqual([
      { rcptTo: ['sales@inbound.test'], status: 'received', route: true, subject: 'Hello' },
      expect.objectContaining({ rcptTo: expect.any(Array), subject: 'Hello' }),
      expect.objectContaining({ rcptTo: expect.any(Array), subject: 'Hello' }),
    ])
    const all = stored().map(({ rcptTo }) => rcptTo.join())
    expect(all.toSorted()).toEqual([
      'sales@inbound.test',
      'support@inbound.test,support+2@inbound.test',
      'x@inbound.test,y@inbound.test',
    ])
    expect(inboundEvents()).toHaveLength(2)
  })

  // Proves: list-27, inbound-7, inbound-24
  test('that cannot be parsed reaches its route and its mailbox with its header, the reason and its raw form', async () => {
    await agentMailbox()
    await route('support')
    begin(createStubParser(async () => UNPARSED))
    const text = 'From: Ada <ada@sender.test>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nX-Own: 1\r\n\r\nHello.\r\n'
    await accept(to('agent', 'support'), text)
    expect(await processed(1)).toEqual([
      { rcptTo: ['support@inbound.test'], status: 'failed', route: true, subject: 'Grüße' },
    ])
    const [email] = listInbound(service.app.db, actor.accountId, {}, { limit: 1, offset: 0 }).emails
    expect([email?.errorMessage, service.app.rawMail.get(email?.rawRef ?? 0).length]).toEqual([
      'Too deep.',
      Buffer.from(text).length,
    ])
    expect(JSON.parse(createBodyReader(service.app).read(email?.headersRef ?? null) ?? '')).toEqual([
      ['From', 'Ada <ada@sender.test>'],
      ['Subject', 'Grüße'],
      ['X-Own', '1'],
    ])
    expect(inMailbox()).toEqual([
      expect.objectContaining({
        subject: 'Grüße',
        fromHeader: 'Ada <ada@sender.test>',
        parseError: 'Too deep.',
        textRef: null,
        htmlRef: null,
        rawRef: email?.rawRef,
      }),
    ])
    expect(types()).toEqual(['email.inbound', 'mailbox.message.received'])
  })
})

const agentMailbox = () => createMailbox(service.app, actor, { local_part: 'agent', domain_id: domainUuid })

/** Messages in the mailbox `agent`. */
function inMailbox() {
  const mailbox = findMailbox(service.app.db, 'inbound.test', 'agent')
  if (!mailbox) throw new Error('there is no mailbox')
  return listMessages(service.app.db, mailbox, 'all', { limit: 100, offset: 0 }).messages
}

/** The account's events about received mail, unordered. */
const types = () =>
  service.app.db
    .query<{ data: string }, []>(
      "SELECT data FROM events WHERE data LIKE '%inbound_email_id%' OR data LIKE '%mailbox_message_id%'",
    )
    .all()
    .map(({ data }) => (data.includes('inbound_email_id') ? 'email.inbound' : 'mailbox.message.received'))
    .toSorted()

describe('a domain at its limit of unrouted messages', () => {
  const unrouted = () => rowsWhere('route_id IS NULL')
  const rowsWhere = (condition: string): number =>
    service.app.db.query<{ n: number }, []>(`SELECT count(*) AS n FROM inbound_emails WHERE ${condition}`).get()?.n ?? 0
  const settled = () => eventually(() => countQueueEntries(service.app.db) === 0)

  /** One received message, and as many more of this size that together there are `count`. */
  async function fill(count: number, sizeBytes: number): Promise<void> {
    begin(createStubParser(async () => PARSED))
    await accept(to('nobody'))
    await settled()
    const columns = service.app.db
      .query<{ name: string }, []>(
        "SELECT name FROM pragma_table_info('inbound_emails') WHERE name NOT IN ('id', 'uuid', 'size_bytes')",
      )
      .all()
      .map(({ name }) => name)
    service.app.db.run(
      `INSERT INTO inbound_emails (uuid, size_bytes, ${columns}) WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
       SELECT randomblob(16), ${sizeBytes}, ${columns} FROM inbound_emails, n`,
    )
    expect(unrouted()).toBe(count)
  }

  // Proves: inbound-11
  test('drops the oldest for the newest, and deletes their content', async () => {
    await fill(MAX_UNROUTED, 100)
    for (const name of ['invented', 'made-up']) await accept(to(name))
    await settled()
    const garbage = service.app.db.query<{ n: number }, []>('SELECT count(*) AS n FROM content_garbage').get()?.n ?? 0
    expect({
      unrouted: unrouted(),
      oldest: rowsWhere('id <= 2'),
      newest: stored()
        .slice(0, 2)
        .map(({ rcptTo }) => rcptTo),
      isContentDropped: garbage >= 4,
    }).toEqual({
      unrouted: MAX_UNROUTED,
      oldest: 0,
      newest: [['made-up@inbound.test'], ['invented@inbound.test']],
      isContentDropped: true,
    })
  })

  // Proves: inbound-11
  test('drops as many of the oldest as a large message needs', async () => {
    await fill(3, MAX_UNROUTED_BYTES / 2 - 10)
    await accept(to('large'))
    await settled()
    expect({
      unrouted: unrouted(),
      oldest: rowsWhere('id <= 2'),
      newest: rowsWhere("rcpt_to LIKE '%large@%'"),
    }).toEqual({ unrouted: 2, oldest: 0, newest: 1 })
  })

  // Proves: inbound-11
  test('still stores mail for routes, mailboxes and other domains', async () => {
    await route('support')
    await agentMailbox()
    await fill(MAX_UNROUTED, 100)
    await accept(to('support', 'nobody'))
    await settled()
    expect(rowsWhere('route_id IS NOT NULL')).toBe(1)
    for (const processor of processors) await processor.stop(0)
    begin(createStubParser(async () => UNPARSED))
    await accept(to('nobody', 'agent'))
    await settled()
    expect({ unrouted: unrouted(), failed: rowsWhere(`status = ${inboundStatusCode('failed')}`) }).toEqual({
      unrouted: MAX_UNROUTED,
      failed: 1,
    })
    const other = await createTestAccount(service.app)
    const { domain } = await createDomain(service.app, other, 'other.test')
    await accept([{ kind: 'domain', address: 'x@other.test', accountId: other.accountId, domainId: domain.id }])
    await settled()
    expect(rowsWhere(`domain_id = ${domain.id}`)).toBe(1)
  })
})

describe('a report about the mail of a domain', () => {
  const handIn = async (domain: string): Promise<number> => {
    const { app } = service
    const put = app.content.put.bind(app.content)
    let puts = 0
    Object.defineProperty(app.content, 'put', {
      value: (...given: Parameters<typeof put>) => {
        puts++
        return put(...given)
      },
    })
    const report: AggregateReport = {
      kind: 'dmarc',
      domain,
      organisation: 'receiver.example',
      reportId: '1',
      beginMs: null,
      endMs: null,
      content: Buffer.from('<feedback/>'),
    }
    begin(createStubParser(async () => ({ ...PARSED, report: { kind: 'aggregate', report } })))
    await accept([{ kind: 'host', address: 'dmarc-reports@mail.tassis.test' }])
    await processed(0)
    return puts
  }
  const kept = () => ({
    reports: listReports(service.app.db, undefined, { limit: 10, offset: 0 }).reports.map(({ domain }) => domain),
    operator: listOperatorMail(service.app.db, { limit: 10 }).mail.map(({ kind, reason }) => [kind, reason]),
  })

  test('of ours is stored and not shown to the operator', async () => {
    expect([await handIn('inbound.test'), kept()]).toEqual([1, { reports: ['inbound.test'], operator: [] }])
  })

  test('of unknown owner goes to the operator, and is not unpacked to disk', async () => {
    expect([await handIn('example.org'), kept()]).toEqual([
      0,
      { reports: [], operator: [['report', 'The report is about a domain that no account here has.']] },
    ])
  })
})

describe('a message is processed once', () => {
  // Proves: inbound-28
  test('a message interrupted by a stop has no effects, and is processed after the next start', async () => {
    await accept(to('a'))
    const stuck = createStubParser(() => new Promise(() => {}))
    const first = begin(stuck)
    await eventually(() => stuck.asked.length === 1)
    // The parser never responds: the message in progress stays unchanged.
    await first.stop(0)
    expect([countQueueEntries(service.app.db), stored()]).toEqual([1, []])
    begin(createStubParser(async () => PARSED))
    expect(await processed(1)).toHaveLength(1)
  })

  test('a message that could not be stored is stored later, exactly once, and not treated as corrupt', async () => {
    const { app } = service
    const put = app.content.put.bind(app.content)
    let failures = 4
    Object.defineProperty(app.content, 'put', {
      value: (...given: Parameters<typeof put>) =>
        failures-- > 0 ? Promise.reject(new Error('no room')) : put(...given),
    })
    await runOutOfTime(async () => {
      const parser = createStubParser(async () => PARSED)
      begin(parser)
      await accept(to('a'))
      await processed(1)
      expect([parser.asked.length, stored()[0]?.status]).toEqual([5, 'no_route'])
    })
  })

  test('an unreadable message delays no other, and is finally stored as failed', async () => {
    const { app } = service
    await accept(to('broken'))
    await runOutOfTime(async () => {
      const [broken] = app.db.query<{ ref: number }, []>('SELECT raw_ref AS ref FROM inbound_receipts').all()
      let attempts = 0
      const parser = createStubParser(async ({ rawRef }) => {
        if (rawRef !== broken?.ref) return PARSED
        // Its retry, of milliseconds in this test, ends after all others.
        if (++attempts > 1) await eventually(() => stored().length === 50)
        throw new Error('the raw message could not be read: blob is missing')
      })
      for (let number = 0; number < 50; number++) await accept(to(`good${number}`), `Subject: ${number}\r\n\r\nx\r\n`)
      begin(parser)
      const all = await processed(51)
      expect(all.filter(({ status }) => status === 'failed')).toEqual([
        { rcptTo: ['broken@inbound.test'], status: 'failed', route: false, subject: 'Hello' },
      ])
      // The list begins with the newest: the unreadable message was stored after all others.
      expect(all[0]?.rcptTo).toEqual(['broken@inbound.test'])
    })
  })

  test('many failing messages delay no other, and are stored unparsed', async () => {
    const { app } = service
    app.db.run(
      "CREATE TRIGGER bad BEFORE INSERT ON inbound_emails WHEN new.subject = 'bad' BEGIN SELECT RAISE(ABORT, 'a bug'); END",
    )
    for (let number = 0; number < 40; number++) await accept(to('bad'), `Subject: ${number}\r\n\r\nbad\r\n`)
    await accept(to('good'), 'Subject: good\r\n\r\ngood\r\n')
    const rows = app.db.query<{ ref: number }, []>('SELECT raw_ref AS ref FROM inbound_receipts ORDER BY id').all()
    const good = rows.at(-1)?.ref
    const begun = new Set<number>()
    await runOutOfTime(async () => {
      begin(
        createStubParser(async ({ rawRef }) => {
          if (rawRef === good) return PARSED
          // The retries, of milliseconds in this test, end after the good message.
          if (begun.has(rawRef)) await eventually(() => stored().length > 0)
          begun.add(rawRef)
          return { ...PARSED, message: { ...MESSAGE, subject: 'bad' } }
        }),
      )
      const all = await processed(41)
      // The list ends with the oldest: the good message was stored first.
      expect(all.at(-1)).toEqual({ rcptTo: ['good@inbound.test'], status: 'no_route', route: false, subject: 'Hello' })
      expect(all.filter(({ status }) => status === 'failed')).toHaveLength(40)
    })
  })

  // Proves: inbound-23
  test('regular stops do not count against a message, however often it was in progress', async () => {
    await accept(to('a'))
    for (let times = 0; times < 4; times++) {
      const stuck = createStubParser(() => new Promise(() => {}))
      const processor = begin(stuck)
      await eventually(() => stuck.asked.length === 1)
      await processor.stop(0)
    }
    begin(createStubParser(async () => PARSED))
    expect(await processed(1)).toMatchObject([{ status: 'no_route' }])
  })

  test('suspects are processed one by one, so that none is given up for another', async () => {
    for (const name of ['a', 'b', 'c']) await accept(to(name))
    service.app.db.run('UPDATE inbound_receipts SET attempts = 2')
    for (const name of ['d', 'e', 'f']) await accept(to(name))
    let inHand = 0
    const together: number[] = []
    begin(
      createStubParser(async () => {
        together.push(++inHand)
        // A suspect leaves time for another message to begin; the others wait until all have begun.
        if (together.length <= 3) await Bun.sleep(5)
        else await eventually(() => together.length === 6)
        inHand--
        return PARSED
      }),
    )
    expect(await processed(6)).toHaveLength(6)
    expect([together.slice(0, 3), Math.max(...together)]).toEqual([[1, 1, 1], 3])
  })

  // Proves: inbound-24
  test('a message alone in progress at three deaths is given up: stored with its header, notified, logged, not answered', async () => {
    const lines: Record<string, unknown>[] = []
    const log = createLog('error', { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) })
    Object.defineProperty(service.app, 'log', { configurable: true, value: log })
    const mailbox = await agentMailbox()
    await changeAutoResponder(service.app, actor, formatUuid(mailbox.uuid), {
      enabled: true,
      rules: [{ reply: { text_body: 'Thanks.' } }],
    })
    await accept(to('agent'))
    // The first attempt was not known to be alone.
    for (let times = 0; times < 4; times++) await die(1)
    const parser = createStubParser(async () => PARSED)
    const processor = begin(parser)
    await eventually(() => countQueueEntries(service.app.db) === 0)
    // An automatic reply would have been sent by now.
    await processor.stop()
    const [message] = inMailbox()
    expect([parser.asked, message?.subject, message?.parseError]).toEqual([
      [],
      'Hello',
      'The service crashed several times while parsing it.',
    ])
    expect(types()).toEqual(['mailbox.message.received'])
    expect(lines).toEqual([
      expect.objectContaining({
        level: 'error',
        receipt: 1,
        messages: [formatUuid(message?.uuid ?? new Uint8Array())],
        problem: 'The service crashed several times while parsing it.',
      }),
    ])
    expect(service.app.db.query('SELECT count(*) AS n FROM emails').get()).toEqual({ n: 0 })
  })

  test('a message that also kills the process with its header is stored without it', async () => {
    await accept(to('a'))
    service.app.db.run('UPDATE inbound_receipts SET attempts = 6')
    begin(createStubParser(async () => PARSED))
    expect(await processed(1)).toEqual([{ rcptTo: ['a@inbound.test'], status: 'failed', route: false, subject: '' }])
  })

  // Proves: inbound-23
  test('deaths count against a message only when it was alone in progress, however many deaths there are', async () => {
    for (const name of ['a', 'b', 'c', 'd']) await accept(to(name))
    // All four are in progress together: this death counts against none of them alone.
    await die(4)
    expect(attempts()).toEqual([1, 1, 1, 1])
    // From now on one message is in progress at a time, and the deaths hit the messages in turn.
    const together: number[] = []
    for (let times = 0; times < 8; times++) together.push(await die(1))
    expect({ together, attempts: attempts() }).toEqual({
      together: Array.from({ length: 8 }, () => 1),
      attempts: [3, 3, 3, 3],
    })
    begin(createStubParser(async () => PARSED))
    expect((await processed(4)).map(({ status }) => status)).toEqual(Array.from({ length: 4 }, () => 'no_route'))
  })

  // Proves: inbound-23
  test('a message that kills the process whenever it is parsed is given up alone, after the others have passed', async () => {
    await accept(to('poison'), 'Subject: poison\r\n\r\nx\r\n')
    for (const name of ['a', 'b', 'c']) await accept(to(name))
    const [poison] = service.app.db
      .query<{ ref: number }, []>('SELECT raw_ref AS ref FROM inbound_receipts ORDER BY id')
      .all()
    let starts = 0
    while (countQueueEntries(service.app.db) > 0) {
      const died = Promise.withResolvers<void>()
      const processor = begin(
        createStubParser(({ rawRef }) => {
          if (rawRef === poison?.ref) died.resolve()
          // Messages that are parsed at the same time never finish, because the process dies with them.
          return rawRef === poison?.ref || starts === 0 ? new Promise(() => {}) : Promise.resolve(PARSED)
        }),
      )
      await Promise.race([died.promise, eventually(() => countQueueEntries(service.app.db) === 0)])
      if (countQueueEntries(service.app.db) > 0) await kill(processor)
      starts++
    }
    expect(stored().map(({ rcptTo: [address], status, subject }) => [address, status, subject])).toEqual(
      [
        ['poison@inbound.test', 'failed', 'poison'],
        ...['c', 'b', 'a'].map((name) => [`${name}@inbound.test`, 'no_route', 'Hello']),
      ].toSorted((a, b) => (a[1] === 'failed' ? -1 : b[1] === 'failed' ? 1 : 0)),
    )
    expect(starts).toBe(5)
  })

  // Proves: inbound-23
  test.each(['ENOSPC', 'EMFILE', 'EIO', 'SQLITE_BUSY', 'SQLITE_FULL', 'SQLITE_IOERR_WRITE'])(
    'an attempt that ends with %s does not count, even if the process dies before the next one',
    async (code) => {
      await accept(to('a'))
      await die(1)
      const parser = createStubParser(() => Promise.reject(Object.assign(new Error(code), { code })))
      const processor = begin(parser)
      await eventually(() => parser.asked.length === 1 && attempts()[0] === 1)
      await kill(processor)
      expect(attempts()).toEqual([1])
    },
  )

  test('a failing disk or an unstartable parser never counts against a message, however long it lasts', async () => {
    await runOutOfTime(async () => {
      const failures = [
        ...Array.from({ length: 10 }, () => Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })),
        ...Array.from({ length: 10 }, () => new ParserUnavailableError('the parse worker could not be started')),
      ]
      await accept(to('a'))
      begin(
        createStubParser(async () => {
          const failure = failures.pop()
          if (failure) throw failure
          return PARSED
        }),
      )
      expect(await processed(1)).toEqual([
        { rcptTo: ['a@inbound.test'], status: 'no_route', route: false, subject: 'Hello' },
      ])
    })
  })

  test('a message whose domain was deleted in the meantime leaves the queue', async () => {
    await accept(to('a'))
    service.app.db.run('PRAGMA foreign_keys = OFF')
    service.app.db.run('DELETE FROM domains')
    begin(createStubParser(async () => PARSED))
    expect(await processed(0)).toEqual([])
  })
})

describe('fairness', () => {
  /** A message for an account that exists only as an id. */
  const handIn = (mailFrom: string, sourceIp: string, accountId: number, text?: string) =>
    accept([{ kind: 'domain', address: 'a@inbound.test', accountId, domainId }], text, { mailFrom, sourceIp })
  /** Senders of the messages that the parser got, in order. Parsing never ends. */
  const order = async (count: number): Promise<string[]> => {
    const mailFrom: string[] = []
    const processor = begin({
      parse(request) {
        mailFrom.push(request.mailFrom)
        return new Promise(() => {})
      },
      close: () => undefined,
    })
    await eventually(() => mailFrom.length >= count)
    await processor.stop(0)
    return mailFrom
  }

  // Proves: inbound-22
  test.each([
    ['source network', (n: number) => ['2001:db8:1::1', n]],
    ['the /48 of an IPv6 source', (n: number) => [`2001:db8:1:${n.toString(16)}::1`, n]],
    ['destination account', (n: number) => [`198.51.100.${n}`, 1]],
  ] as const)('is by %s: one message does not wait for the many of another', async (_, many) => {
    for (let n = 1; n <= 20; n++) {
      const [sourceIp, accountId] = many(n)
      await handIn('many@sender.test', String(sourceIp), Number(accountId))
    }
    await handIn('one@sender.test', '192.0.2.9', 9)
    expect((await order(21)).indexOf('one@sender.test')).toBe(1)
  })

  test('is by size: five small messages of one network precede the second of half a megabyte of another', async () => {
    const text = `Subject: x\r\n\r\n${'x'.repeat(500_000)}`
    for (let n = 0; n < 3; n++) await handIn('heavy@sender.test', '192.0.2.1', 1, text)
    for (let n = 0; n < 5; n++) await handIn('light@sender.test', '192.0.2.2', 2)
    expect((await order(8)).lastIndexOf('light@sender.test')).toBe(5)
  })

  // Proves: inbound-10
  test('limits queued messages per network: one with a long queue is rejected temporarily, others are not', async () => {
    await handIn('many@sender.test', '127.0.0.1', 1)
    service.app.db.run(
      `INSERT INTO inbound_receipts (mail_from, destinations, source_ip, helo, raw_ref, size_bytes, received_at)
       WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1819)
       SELECT mail_from, destinations, source_ip, helo, raw_ref, size_bytes, received_at FROM inbound_receipts, n`,
    )
    const ended = Promise.withResolvers<ParseResult>()
    const processor = begin(createStubParser(() => ended.promise))
    await using fixture = await startTestListener({
      decide: (address, sourceIp) => processor.findRejection(sourceIp) ?? { kind: 'host', address },
    })
    await using client = await fixture.connectGreeted()
    await using other = await fixture.connectGreeted({ localAddress: '127.0.0.2' })
    const rcpt = async (from: typeof client) => {
      await from.say('RSET')
      await from.say('MAIL FROM:<>')
      return from.say('RCPT TO:<ada@inbound.test>')
    }
    for (let n = 0; n < 3; n++) service.app.mailReceived.emit()
    const replies = [await rcpt(client), await rcpt(other)]
    ended.resolve(PARSED)
    await eventually(() => countQueueEntries(service.app.db) === 0, 100_000)
    replies.push(await rcpt(client))
    expect(replies).toEqual([
      '452 4.3.2 Too many queued messages from your network; try again later',
      '250 2.1.5 Accepted',
      '250 2.1.5 Accepted',
    ])
  }, 120_000)

  // Proves: inbound-22
  test('is separate for large messages: they and small ones do not wait for each other', async () => {
    const large = `Subject: x\r\n\r\n${'x'.repeat(30_000_000)}`
    await handIn('small@sender.test', '192.0.2.1', 1)
    for (let n = 0; n < 2; n++) await handIn('large@sender.test', '192.0.2.1', 1, large)
    await handIn('small@sender.test', '192.0.2.1', 1)
    expect((await order(3)).sort()).toEqual(['large@sender.test', 'small@sender.test', 'small@sender.test'])
  })
})

describe('silent DNS', () => {
  test('leaves a quarter of the slots to networks whose mail does not wait for it', async () => {
    const parser = createStubParser(() => new Promise(() => {}))
    begin(parser)
    const count = async (sourceIp: string, expected: number) => {
      for (let n = 0; n < 100; n++) await accept(to('a'), undefined, { sourceIp, mailFrom: `a@${sourceIp}` })
      await eventually(() => parser.asked.length >= expected)
    }
    await count('192.0.2.1', 96)
    await count('192.0.2.2', 97)
    await accept(to('a'), undefined, { sourceIp: '192.0.2.3', mailFrom: 'one@192.0.2.3' })
    await eventually(() => parser.asked.length >= 98)
    expect(parser.asked.map(({ mailFrom }) => mailFrom).slice(95)).toEqual([
      'a@192.0.2.1',
      'a@192.0.2.2',
      'one@192.0.2.3',
    ])
  })
})
