import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { App } from '#features/core/app/app.ts'
import { createGivenUpResult, filePrefix } from '#features/receiving/inbound/process/parse-protocol.ts'
import {
  createParser,
  type ParseRequest,
  type ParseResult,
  type Parser,
} from '#features/receiving/inbound/process/parser.ts'
import { readFrames } from '#platform/content/frames.ts'
import { startWorker } from '#platform/process/workers.ts'
import { seconds } from '#platform/units.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import type { Answer, Resolver } from '#protocols/dns/resolver.ts'
import { createTestApp } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const NEVER = Promise.withResolvers<never>().promise

/** Resolves the names of a test; names with `silent` in them get no answer. */
function createStubResolver(texts: Readonly<Record<string, string>> = {}): Resolver & { readonly asked: string[] } {
  const asked: string[] = []
  const ask = (name: string): Promise<Answer<never>> => {
    asked.push(name)
    return name.includes('silent') ? NEVER : Promise.resolve({ kind: 'nxdomain' })
  }
  return {
    asked,
    mx: ask,
    a: ask,
    aaaa: ask,
    cname: ask,
    ns: ask,
    ptr: ask,
    txt: (name) => {
      const text = texts[name]
      if (text === undefined) return ask(name)
      asked.push(name)
      return Promise.resolve({ kind: 'ok', records: [text], ttlSeconds: 60 })
    },
    close() {},
    [Symbol.dispose]() {},
  }
}

interface Bench extends AsyncDisposable {
  readonly app: App
  readonly parser: Parser
  readonly clock: ManualClock
  /** All started Workers, in order. */
  readonly workers: readonly Worker[]
  readonly resolver: ReturnType<typeof createStubResolver>
  /** Stores a message and returns the request to parse it. */
  request(raw: string | Uint8Array, more?: Partial<ParseRequest>): Promise<ParseRequest>
  /** Stores and parses a message. */
  parse(raw: string | Uint8Array, more?: Partial<ParseRequest>): Promise<ParseResult>
}

/** @param released when the first Worker gets its messages; default: immediately */
async function createBench(texts?: Readonly<Record<string, string>>, released?: Promise<void>): Promise<Bench> {
  const clock = new ManualClock(Date.UTC(2026, 10, 3))
  const service = await createTestApp({ clock })
  const { app } = service
  const workers: Worker[] = []
  const resolver = createStubResolver(texts)
  const { config, log } = app
  const parser = createParser(
    { config, clock, log, resolver },
    {
      createWorker: () => {
        const worker = startWorker('parse')
        const post = worker.postMessage.bind(worker)
        if (workers.push(worker) === 1 && released)
          worker.postMessage = (sent: unknown) => void released.then(() => post(sent))
        return worker
      },
    },
  )
  const request: Bench['request'] = async (raw, more) => {
    const bytes = typeof raw === 'string' ? Buffer.from(raw) : raw
    const [rawRef = 0] = await app.rawMail.put([bytes], clock.now())
    return {
      rawRef,
      sizeBytes: bytes.length,
      mailFrom: 'ann@sender.example',
      sourceIp: '192.0.2.1',
      helo: 'mx.sender.example',
      tls: null,
      hostname: 'mail.tassis.test',
      wantsReport: true,
      ...more,
    }
  }
  return {
    app,
    parser,
    clock,
    workers,
    resolver,
    request,
    parse: async (raw, more) => parser.parse(await request(raw, more)),
    async [Symbol.asyncDispose]() {
      parser.close()
      await service[Symbol.asyncDispose]()
    },
  }
}

let bench: Bench
beforeEach(async () => {
  bench = await createBench()
})
afterEach(() => bench[Symbol.asyncDispose]())

const message = (subject: string, from = 'ann@sender.example'): string =>
  `From: ${from}\r\nSubject: ${subject}\r\n\r\nhello\r\n`

/** Half a minute without messages for the main thread, because the test does not yield. */
function passHalfMinute(clock: ManualClock): void {
  for (let look = 0; look < 3; look++) clock.advance(seconds(10))
}

const TOO_SLOW = 'Parsing takes longer than 30 seconds.'

// Proves: inbound-32
test('a message is read from the store, parsed, stripped of quotations and authenticated', async () => {
  await using bench = await createBench({
    'sender.example': 'v=spf1 ip4:192.0.2.1 -all',
    '_dmarc.sender.example': 'v=DMARC1; p=reject',
  })
  const answer = await bench.parse(
    [
      'From: ann@sender.example',
      'Subject: Re: lunch',
      'Content-Type: multipart/mixed; boundary=x',
      '',
      '--x',
      '',
      'Yes.',
      '',
      'On Mon, 2 Nov 2026 at 9:00, Bob <bob@tassis.example> wrote:',
      '',
      '> lunch?',
      '--x',
      'Content-Type: application/pdf; name=menu.pdf',
      'Content-Transfer-Encoding: base64',
      '',
      'AAEC/w==',
      '--x--',
      '',
    ].join('\r\n'),
  )
  expect({ ...answer, message: undefined, authentication: undefined }).toEqual({
    message: undefined,
    strippedText: 'Yes.',
    authentication: undefined,
  })
  expect(answer.message?.text).toBe('Yes.\n\nOn Mon, 2 Nov 2026 at 9:00, Bob <bob@tassis.example> wrote:\n\n> lunch?')
  expect(answer.message?.attachments).toEqual([
    {
      filename: 'menu.pdf',
      contentType: 'application/pdf',
      contentId: null,
      disposition: 'attachment',
      content: new Uint8Array([0, 1, 2, 255]),
    },
  ])
  const { spf, dkim, dmarc } = answer.authentication
  expect({ spf, dkim, dmarc }).toEqual({ spf: 'pass', dkim: 'none', dmarc: 'pass' })
  expect(bench.resolver.asked).toContain('sender.example')
})

test('an unparseable message gets a reason, and is still authenticated', async () => {
  await using bench = await createBench({ 'sender.example': 'v=spf1 ip4:192.0.2.1 -all' })
  const answer = await bench.parse('X:\r\n'.repeat(100_001))
  expect({ ...answer, authentication: answer.authentication.spf }).toEqual({
    problem: 'The header of the message is longer than 1 MiB or has more than 100,000 lines.',
    strippedText: null,
    authentication: 'pass',
  })
})

test('parsing rejects for a message that is missing from the store', async () => {
  const request = await bench.request(message('there'))
  await expect(bench.parser.parse({ ...request, rawRef: request.rawRef + 1 })).rejects.toThrow(
    'the raw message could not be read: blob is missing',
  )
  expect((await bench.parser.parse(request)).message?.subject).toBe('there')
})

test('parsing a corrupt stored message rejects as unreadable; a failed write of its attachments does not', async () => {
  const large = `Content-Type: a/b\r\nContent-Transfer-Encoding: base64\r\n\r\n${randomBytes(3_000_000).toString('base64')}\r\n`
  const damaged = await bench.request(large)
  const month = join(bench.app.config.dataDir, 'raw-mail', '2026-11')
  const [name = ''] = readdirSync(month)
  const whole = readFileSync(join(month, name))
  writeFileSync(join(month, name), whole.subarray(0, whole.length - 1000))
  const nameOf = (promise: Promise<unknown>) => promise.then(String, (error: Error) => error.constructor.name)
  expect(await nameOf(bench.parser.parse(damaged))).toBe('RawUnreadableError')

  writeFileSync(join(month, name), whole)
  const incoming = join(bench.app.config.dataDir, 'content', 'incoming')
  // The path of the second message's first attachment.
  writeFileSync(join(incoming, `${filePrefix(2)}0.zst`), '')
  expect(await nameOf(bench.parser.parse(damaged))).toBe('Error')
  const { message: parsed } = await bench.parser.parse(damaged)
  expect(parsed?.attachments.length).toBe(1)
})

test('attachments of every encoding arrive byte for byte, even if they share a buffer in the Worker', async () => {
  const large = Buffer.alloc(8_000_000, 'tassis')
  const part = (encoding: string, body: string) =>
    `--x\r\nContent-Type: a/b\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}\r\n`
  const { message: parsed } = await bench.parse(
    `Content-Type: multipart/mixed; boundary=x\r\n\r\n${part('base64', large.toString('base64'))}${part('7bit', 'plain')}${part('7bit', '')}${part('quoted-printable', 'a=3Db')}${part('base64', large.toString('base64', 0, 200_000))}--x--\r\n`,
  )
  expect(
    parsed?.attachments.map(({ content, file }) => [content.length, content.buffer.byteLength, file?.sizeBytes]),
  ).toEqual([
    // A large one is in a file.
    [0, 0, 8_000_000],
    [5, 5, undefined],
    [0, 0, undefined],
    [3, 3, undefined],
    [200_000, 200_000, undefined],
  ])
  const path = parsed?.attachments[0]?.file?.path ?? ''
  expect(Buffer.concat([...readFrames(path)]).equals(large)).toBe(true)
  expect(large.subarray(0, 200_000).equals(parsed?.attachments[4]?.content ?? new Uint8Array())).toBe(true)
})

test('parsed messages wait for DNS concurrently, and each gets its own answer', async () => {
  const slow = bench.parse(message('slow', 'ann@silent.example'), { mailFrom: 'ann@silent.example' })
  const subjects = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => (await bench.parse(message(`number ${n}`))).message?.subject),
  )
  expect(subjects).toEqual(Array.from({ length: 20 }, (_, n) => `number ${n}`))
  expect(bench.workers.length).toBe(1)
  bench.parser.close()
  await expect(slow).rejects.toThrow('the parser is closed')
})

// Proves: inbound-22
test('small messages do not wait for large ones, and large ones wait for each other', async () => {
  const released = Promise.withResolvers<void>()
  await using bench = await createBench({}, released.promise)
  const requests = await Promise.all([
    bench.request(`Subject: large\n\n${'\n'.repeat(2_000_000)}`),
    bench.request(`Subject: larger\n\n${'\n'.repeat(1_000_000)}`),
    bench.request(message('small')),
    bench.request(message('smaller')),
  ])
  const order: string[] = []
  const answers = requests.map(async (request) => {
    const { message: parsed } = await bench.parser.parse(request, () => {})
    order.push(parsed?.subject ?? '')
  })
  // The Worker of the large ones begins only now.
  await Promise.all(answers.slice(2))
  released.resolve()
  await Promise.all(answers)
  expect(order).toEqual(['small', 'smaller', 'large', 'larger'])
  expect(bench.workers.length).toBe(2)
})

describe('a Worker', () => {
  test('that is silent for 30 seconds is ended: its message has a problem, and the next one gets a new Worker', async () => {
    await bench.parse(message('first'))
    const request = await bench.request(message('endless'))
    const endless = bench.parser.parse(request)
    passHalfMinute(bench.clock)
    expect(await endless).toEqual(createGivenUpResult(TOO_SLOW))
    expect((await bench.parse(message('next'))).message?.subject).toBe('next')
    expect(bench.workers.length).toBe(2)
  })

  test('survives 20 silent seconds and one long pause of the process', async () => {
    await bench.parse(message('first'))
    const request = await bench.request(message('slow'))
    const slow = bench.parser.parse(request)
    bench.clock.advance(seconds(20))
    expect((await slow).message?.subject).toBe('slow')
    const paused = bench.parser.parse(request)
    // However long the pause, it makes one check due.
    bench.clock.advance(seconds(10))
    expect((await paused).message?.subject).toBe('slow')
    expect(bench.workers.length).toBe(1)
  })

  test('that is silent for 30 seconds is ended even if messages keep arriving', async () => {
    await bench.parse(message('first'))
    const request = await bench.request(message('endless'))
    const endless = bench.parser.parse(request)
    const others: Promise<ParseResult>[] = []
    for (let look = 0; look < 6; look++) {
      bench.clock.advance(seconds(5))
      others.push(bench.parser.parse(request))
    }
    expect((await endless).problem).toBe(TOO_SLOW)
    expect((await Promise.all(others)).map(({ message: parsed }) => parsed?.subject)).toEqual(
      others.map(() => 'endless'),
    )
  })

  test('that dies keeps the results of messages being authenticated; the one being parsed is retried alone', async () => {
    await bench.parse(message('first'))
    const silent = bench.parse(message('silent', 'ann@silent.example'), { mailFrom: 'ann@silent.example' })
    // Parsed: the DNS query follows.
    while (!bench.resolver.asked.some((name) => name.includes('silent'))) await Bun.sleep(1)
    const request = await bench.request(message('innocent'))
    const innocent = bench.parser.parse(request)
    passHalfMinute(bench.clock)
    const { message: parsed, authentication } = await silent
    expect([parsed?.subject, authentication]).toEqual(['silent', UNKNOWN_AUTHENTICATION])
    expect((await innocent).message?.subject).toBe('innocent')
    expect(bench.workers.length).toBe(2)
  })

  test('that dies again while it parses a message alone makes that message a problem', async () => {
    await bench.parse(message('first'))
    const silent = bench.parse(message('silent', 'ann@silent.example'), { mailFrom: 'ann@silent.example' })
    while (!bench.resolver.asked.some((name) => name.includes('silent'))) await Bun.sleep(1)
    const request = await bench.request(message('guilty'))
    const guilty = bench.parser.parse(request)
    passHalfMinute(bench.clock)
    await silent
    const again = bench.workers[1]
    if (!again) throw new Error('no second Worker')
    // The second Worker starts before it is ended, because a message can end only a started one.
    await new Promise<void>((resolve) => {
      const onStarted = () => {
        passHalfMinute(bench.clock)
        resolve()
      }
      again.addEventListener('message', onStarted, { once: true })
    })
    expect((await guilty).problem).toBe(TOO_SLOW)
  })

  test('that exits unexpectedly is replaced', async () => {
    await bench.parse(message('first'))
    const request = await bench.request(message('deadly'))
    const [worker] = bench.workers
    if (!worker) throw new Error('no Worker')
    // It never finishes before it exits.
    worker.postMessage = () => undefined
    const deadly = bench.parser.parse(request)
    worker.terminate()
    expect((await deadly).problem).toBe('The parser crashed on it.')
    expect((await bench.parse(message('next'))).message?.subject).toBe('next')
  })

  test('that cannot start rejects the message, and does not blame it', async () => {
    await using bench = await createBench({}, NEVER)
    const request = await bench.request(message('first'))
    const first = bench.parser.parse(request)
    bench.workers[0]?.terminate()
    await expect(first).rejects.toThrow('the parse worker could not be started')
    expect((await bench.parser.parse(request)).message?.subject).toBe('first')
  })
})

test('a Worker idle for a minute ends, and the next message starts another', async () => {
  await bench.parse(message('first'))
  bench.clock.advance(seconds(59))
  await bench.parse(message('second'))
  expect(bench.workers.length).toBe(1)
  bench.clock.advance(seconds(60))
  await bench.parse(message('third'))
  expect(bench.workers.length).toBe(2)
})

test('a closed parser rejects waiting and new messages', async () => {
  const request = await bench.request(message('late'))
  const waiting = [bench.parser.parse(request), bench.parser.parse(request)]
  bench.parser.close()
  const outcomes = await Promise.allSettled([...waiting, bench.parser.parse(request)])
  expect(outcomes.map((outcome) => (outcome.status === 'rejected' ? String(outcome.reason) : 'parsed'))).toEqual([
    'Error: the parser is closed',
    'Error: the parser is closed',
    'Error: the parser is closed',
  ])
})

describe('reports', () => {
  const report = (type: string, parts: readonly string[]): string =>
    `From: mailer-daemon@other.example\r\nSubject: report\r\nContent-Type: multipart/report; report-type=${type}; boundary=x\r\n\r\n${parts.map((part) => `--x\r\n${part}\r\n`).join('')}--x--\r\n`
  const DELIVERY = report('delivery-status', [
    'Content-Type: text/plain\r\n\r\nIt failed.',
    'Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.other.example\r\n\r\nFinal-Recipient: rfc822; bob@other.example\r\nAction: failed\r\nStatus: 5.1.1',
  ])
  const FEEDBACK = report('feedback-report', [
    'Content-Type: text/plain\r\n\r\nA complaint.',
    'Content-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nUser-Agent: Loop/1\r\nVersion: 1',
    'Content-Type: message/rfc822\r\n\r\nFrom: a@tassis.example\r\nTo: bob@other.example\r\nMessage-ID: <1@tassis.example>\r\n\r\nx',
  ])
  const XML = `<?xml version="1.0"?><feedback><report_metadata><org_name>Other</org_name><email>a@other.example</email><report_id>r1</report_id><date_range><begin>1793664000</begin><end>1793750399</end></date_range></report_metadata><policy_published><domain>tassis.example</domain><p>none</p></policy_published><record><row><source_ip>192.0.2.1</source_ip><count>1</count><policy_evaluated><disposition>none</disposition><dkim>pass</dkim><spf>pass</spf></policy_evaluated></row><identifiers><header_from>tassis.example</header_from></identifiers><auth_results><spf><domain>tassis.example</domain><result>pass</result></spf></auth_results></record></feedback>`
  const AGGREGATE = `From: dmarc@other.example\r\nSubject: Report Domain: tassis.example Submitter: other.example Report-ID: <r1>\r\nContent-Type: application/gzip; name="other.example!tassis.example!1793664000!1793750399.xml.gz"\r\nContent-Disposition: attachment; filename="other.example!tassis.example!1793664000!1793750399.xml.gz"\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from(Bun.gzipSync(Buffer.from(XML))).toString('base64')}\r\n`

  test('are recognised by their form, if requested', async () => {
    const kinds: unknown[] = []
    for (const raw of [DELIVERY, FEEDBACK, AGGREGATE, message('hello')])
      kinds.push((await bench.parse(raw, { mailFrom: '' })).report?.kind)
    kinds.push((await bench.parse(DELIVERY, { mailFrom: '', wantsReport: false })).report)
    expect(kinds).toEqual(['delivery', 'feedback', 'aggregate', undefined, undefined])
  })
})

test('a message of the corpus passes the Worker unchanged', async () => {
  const raw = readFileSync(join(import.meta.dir, '../../../corpus/messages/outlook-desktop.eml'))
  const { message: parsed } = await bench.parse(raw)
  expect([parsed?.subject, parsed?.text, parsed?.attachments[0]?.contentId]).toEqual([
    'AW: Angebot',
    'Grüße – €5\n',
    'image001.png@01DA',
  ])
})
