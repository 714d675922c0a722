/**
 * @module `tassis import` of six providers: stubs of their APIs on loopback and files in the form of their exports. Each
 * ends with the same suppressions here, with reasons and dates; what cannot be converted is named.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { signAws } from '#platform/crypto/sign-aws.ts'
import {
  createClient,
  createDataFolder,
  type DataFolder,
  type RunningService,
  runTassis,
  setUpAccount,
  startServing,
} from './process.ts'

setDefaultTimeout(120_000)

type Json = Record<string, unknown>
const SECONDS = 1_700_000_000
const ISO = '2023-11-14T22:13:20.000Z'
const HTTP_DATE = 'Tue, 14 Nov 2023 22:13:20 GMT'
const HANDLEBARS =
  '<p>Hi {{name}}{{#if items}}<ul>{{#each items}}<li>{{@index}} {{this.title}} {{../shop}}</li>{{/each}}</ul>{{else}}none{{/if}}{{{raw}}}</p>'
const JINJA =
  "<p>Hi {{ name|default('') }}{% if items|default(false) %}<ul>{% for item in items|default([], true) %}<li>{{ loop.index0|default('') }} {{ item.title|default('') }} {{ shop|default('') }}</li>{% endfor %}</ul>{% else %}none{% endif %}{{ raw|default('')|safe }}</p>"
const HELPER = '{{#equals plan "pro"}}Pro{{/equals}} {{formatDate at}}'

/** The responses of each API by path; a function gets the query. */
type Reply = Json | Json[] | ((query: URLSearchParams) => Json | Json[] | Response)
const REPLIES: Record<string, Record<string, Reply>> = {
  mailgun: {
    '/v3/mg.example.com/bounces': (query) =>
      query.has('page')
        ? { items: [], paging: { next: `https://api.mailgun.net/v3/mg.example.com/bounces?page=next&address=b` } }
        : {
            items: [{ address: 'bounce@x.test', code: '550', error: 'No such user', created_at: HTTP_DATE }],
            paging: { next: `https://api.mailgun.net/v3/mg.example.com/bounces?page=next&address=b` },
          },
    '/v3/mg.example.com/complaints': {
      items: [{ address: 'spam@x.test', count: 1, created_at: HTTP_DATE }],
      paging: {},
    },
    '/v3/mg.example.com/unsubscribes': { items: [{ address: 'unsub@x.test', tags: ['*'], created_at: HTTP_DATE }] },
    '/v3/mg.example.com/templates': { items: [{ name: 'good' }, { name: 'bad' }] },
    '/v3/mg.example.com/templates/good': {
      template: {
        name: 'good',
        description: 'Good',
        version: { template: HANDLEBARS, engine: 'handlebars', headers: { Subject: 'Hi {{name}}' } },
      },
    },
    '/v3/mg.example.com/templates/bad': {
      template: { name: 'bad', version: { template: `${HELPER}%recipient.name%` } },
    },
  },
  ses: {
    '/v2/email/suppression/addresses': (query) =>
      query.has('NextToken')
        ? {
            SuppressedDestinationSummaries: [
              { EmailAddress: 'spam@x.test', Reason: 'COMPLAINT', LastUpdateTime: SECONDS },
            ],
          }
        : {
            SuppressedDestinationSummaries: [
              { EmailAddress: 'bounce@x.test', Reason: 'BOUNCE', LastUpdateTime: SECONDS + 0.25 },
            ],
            NextToken: 'a+b/c==',
          },
    '/v2/email/templates': { TemplatesMetadata: [{ TemplateName: 'good' }, { TemplateName: 'bad' }] },
    '/v2/email/templates/good': {
      TemplateName: 'good',
      TemplateContent: { Subject: 'Hi {{name}}', Html: HANDLEBARS, Text: '{{#unless paid}}Pay{{/unless}}' },
    },
    '/v2/email/templates/bad': {
      TemplateName: 'bad',
      TemplateContent: { Subject: 'x', Text: `${HELPER} {{amazonSESUnsubscribeUrl}}` },
    },
  },
  sendgrid: {
    '/v3/suppression/bounces': (query) =>
      Array.from({ length: query.get('offset') === '0' ? 500 : 1 }, (_, i) => ({
        created: SECONDS,
        email: query.get('offset') === '0' ? `b${i}@x.test` : 'bounce@x.test',
        reason: '550 5.1.1 No such user',
        status: '5.1.1',
      })),
    '/v3/suppression/invalid_emails': [
      { created: SECONDS, email: 'nobody', reason: 'Mail domain mentioned is unknown' },
    ],
    '/v3/suppression/spam_reports': [{ created: SECONDS, email: 'spam@x.test', ip: '192.0.2.1' }],
    '/v3/suppression/unsubscribes': [{ created: SECONDS, email: 'unsub@x.test' }],
    '/v3/asm/suppressions': [{ email: 'group@x.test', group_id: 1, group_name: 'News', created_at: SECONDS }],
    '/v3/suppression/blocks': [{ created: SECONDS, email: 'blocked@x.test', reason: '421 try later', status: '4.0.0' }],
    '/v3/templates': {
      result: [
        { id: 'd-1', name: 'Good' },
        { id: 'd-2', name: 'Bad' },
      ],
      _metadata: { count: 2 },
    },
    '/v3/templates/d-1': {
      id: 'd-1',
      name: 'Good',
      versions: [
        { active: 0, html_content: 'old' },
        { active: 1, name: 'v2', subject: 'Hi {{name}}', html_content: HANDLEBARS, plain_content: '' },
      ],
    },
    '/v3/templates/d-2': {
      id: 'd-2',
      name: 'Bad',
      versions: [{ active: 1, subject: '', html_content: `${HELPER}<%asm_group_unsubscribe_raw_url%>` }],
    },
  },
  postmark: {
    '/message-streams': {
      MessageStreams: [
        { ID: 'outbound', MessageStreamType: 'Transactional' },
        { ID: 'news', MessageStreamType: 'Broadcasts' },
        { ID: 'inbound', MessageStreamType: 'Inbound' },
      ],
    },
    '/message-streams/outbound/suppressions/dump': {
      Suppressions: [
        {
          EmailAddress: 'bounce@x.test',
          SuppressionReason: 'HardBounce',
          Origin: 'Recipient',
          CreatedAt: '2023-11-14T17:13:20-05:00',
        },
        { EmailAddress: 'spam@x.test', SuppressionReason: 'SpamComplaint', Origin: 'Recipient', CreatedAt: ISO },
      ],
    },
    '/message-streams/news/suppressions/dump': {
      Suppressions: [
        { EmailAddress: 'unsub@x.test', SuppressionReason: 'ManualSuppression', Origin: 'Recipient', CreatedAt: ISO },
      ],
    },
    '/templates': { Templates: [7, 8, 9, 10].map((TemplateId) => ({ TemplateId })) },
    '/templates/7': {
      TemplateId: 7,
      Name: 'Good',
      Alias: 'good',
      Subject: 'Hi {{name}}',
      HtmlBody: '<p>{{#each items}}{{title}}{{/each}}</p>',
      LayoutTemplate: 'frame',
      TemplateType: 'Standard',
    },
    '/templates/9': { TemplateId: 9, Alias: 'frame', HtmlBody: '<i>{{{ @content }}}</i>', TemplateType: 'Layout' },
    '/templates/10': { TemplateId: 10, Subject: 'x', HtmlBody: 'x', LayoutTemplate: 'gone', TemplateType: 'Standard' },
    '/templates/8': {
      TemplateId: 8,
      Name: 'Bad',
      Alias: 'bad',
      Subject: 'x',
      TextBody: '{{{ pm:unsubscribe }}}',
      TemplateType: 'Standard',
    },
  },
  resend: {
    '/suppressions': (query) =>
      query.has('after')
        ? { has_more: false, data: [{ id: '2', email: 'spam@x.test', origin: 'complaint', created_at: ISO }] }
        : {
            has_more: true,
            data: [{ id: '1', email: 'bounce@x.test', origin: 'bounce', created_at: '2023-11-14 22:13:20.000+00' }],
          },
    '/templates': { has_more: false, data: [{ id: 'r-1' }, { id: 'r-2' }] },
    '/templates/r-1': {
      id: 'r-1',
      alias: 'good',
      name: 'Good',
      subject: 'Hi {{{name}}}',
      html: '<p>{{{name}}}</p>',
      variables: [{ key: 'name', fallback_value: 'y"o\'u' }],
    },
    '/templates/r-2': { id: 'r-2', alias: null, name: 'Bad', subject: 'x', html: '{{{RESEND_UNSUBSCRIBE_URL}}}' },
  },
  brevo: {
    '/v3/smtp/blockedContacts': {
      count: 3,
      contacts: [
        { email: 'bounce@x.test', reason: { code: 'hardBounce', message: 'x' }, blockedAt: ISO },
        { email: 'spam@x.test', reason: { code: 'contactFlaggedAsSpam' }, blockedAt: ISO },
        { email: 'unsub@x.test', reason: { code: 'unsubscribedViaEmail' }, blockedAt: ISO },
      ],
    },
    '/v3/smtp/templates': {
      count: 2,
      templates: [
        {
          id: 1,
          name: 'Good',
          subject: 'Hi {{ params.name }}',
          htmlContent: '<p>{% if params.a %}{{ params.name }}{% endif %}</p>',
        },
        { id: 2, name: 'Bad', subject: 'x', htmlContent: '{{ contact.NAME|default:"x" }}' },
      ],
    },
  },
}
const HEADERS: Record<string, readonly [string, string]> = {
  mailgun: ['authorization', `Basic ${btoa('api:the-key')}`],
  sendgrid: ['authorization', 'Bearer the-key'],
  postmark: ['x-postmark-server-token', 'the-key'],
  resend: ['authorization', 'Bearer the-key'],
  brevo: ['api-key', 'the-key'],
}
const ALIASES: Record<string, readonly [good: string, bad: string]> = {
  sendgrid: ['d-1', 'd-2'],
  resend: ['good', 'r-2'],
  brevo: ['brevo-1', 'brevo-2'],
}
const EXTRA: Record<string, readonly string[]> = {
  mailgun: ['--domain', 'mg.example.com'],
  ses: ['--region', 'eu-central-1'],
}
const keyOf = (name: string): string => (name === 'ses' ? 'AKID:the-secret' : 'the-key')

let data: DataFolder
let service: RunningService
let api: ReturnType<typeof createClient>
/** Replies 429 with this Retry-After, once for each entry. */
const limits: string[] = []
let server: ReturnType<typeof Bun.serve>
const base = (name: string): string => `${server.url.href}${name}`

function reply(request: Request): Response {
  const url = new URL(request.url)
  const [, name = ''] = url.pathname.split('/')
  const path = url.pathname.slice(name.length + 1)
  if (limits.length > 0) return new Response('', { status: 429, headers: { 'retry-after': limits.shift() ?? '' } })
  if (name === 'ses') {
    const time = Date.parse((request.headers.get('x-amz-date') ?? '').replace(/(....)(..)(..T..)(..)/, '$1-$2-$3:$4:'))
    const wanted = signAws(
      { method: 'GET', url: request.url, body: '' },
      'AKID',
      'the-secret',
      'eu-central-1/ses',
      time,
    )
    if (request.headers.get('authorization') !== wanted.authorization)
      return Response.json({ message: 'bad signature' }, { status: 403 })
  } else if (request.headers.get(HEADERS[name]?.[0] ?? '') !== HEADERS[name]?.[1]) {
    return Response.json({ message: 'Forbidden' }, { status: 401 })
  }
  const found = REPLIES[name]?.[path]
  if (!found) return Response.json({ message: `no ${path}` }, { status: 404 })
  const body = typeof found === 'function' ? found(url.searchParams) : found
  return body instanceof Response ? body : Response.json(body)
}

beforeAll(async () => {
  data = createDataFolder()
  server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: reply })
  const { key } = await setUpAccount(data.settings)
  service = await startServing({ ...data.settings, TASSIS_MAX_BODY_BYTES: '1MiB' })
  api = createClient(service.url, key)
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await server.stop(true)
  data[Symbol.dispose]()
})

const write = (name: string, content: unknown): string => {
  const path = join(data.path, name)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}
const run = (name: string, args: readonly string[] = [], key = keyOf(name)) => {
  const given = args.includes('--file')
    ? []
    : ['--key-file', write('key', `${key}\n`), '--url', base(name), ...(EXTRA[name] ?? [])]
  return runTassis(['import', name, ...given, ...args], data.settings)
}
const read = async (path: string): Promise<Json[]> => (await api('GET', path)).body.data as Json[]

/** What an import made, by address; then everything is deleted. */
async function takeSuppressions(): Promise<Record<string, string>> {
  const rows = await read('/v1/suppressions?per_page=100')
  for (const { email_address } of rows) await api('DELETE', `/v1/suppressions/${email_address}`)
  return Object.fromEntries(
    rows.map((row) => [row['email_address'], `${row['reason']} ${String(row['created_at']).slice(0, 19)}`]),
  )
}

describe.each(Object.keys(REPLIES))('import %s', (name) => {
  const [good, bad] = ALIASES[name] ?? ['good', 'bad']

  test('shows everything, then writes it with reasons and dates, and again changes nothing', async () => {
    const dry = await run(name)
    expect({ stderr: dry.stderr, exitCode: dry.exitCode }).toEqual({ stderr: '', exitCode: 1 })
    expect(dry.stdout).toMatch(new RegExp(`^to_make +template +${good} *$`, 'm'))
    expect(await read('/v1/suppressions')).toEqual([])
    expect(await read('/v1/templates')).toEqual([])

    const made = await run(name, ['--apply'])
    expect(made.stderr).toBe('')
    expect(made.stdout).toMatch(new RegExp(`^refused +template +${bad} +\\S`, 'm'))
    const again = await run(name, ['--apply'])
    expect(again.stdout).toMatch(new RegExp(`^exists +template +${good} *$`, 'm'))
    expect(again.stdout).toMatch(/\n0 made, /)
    expect((await run(name)).stdout).toMatch(/^exists +\S+ +[1-9]\d* +0 new, [1-9]\d* here before$/m)

    const [template, ...others] = await read('/v1/templates')
    expect(others).toEqual([])
    expect(template).toMatchObject({ alias: good, name: name === 'ses' ? 'good' : 'Good' })
    if (['mailgun', 'ses', 'sendgrid'].includes(name))
      expect(template).toMatchObject({ subject: "Hi {{ name|default('') }}", html_body: JINJA })
    if (name === 'postmark') {
      expect(template?.['html_body']).toMatch(/^<i><p>.*<\/p><\/i>$/)
      expect(made.stdout).toMatch(/^refused +template +postmark-10 +its layout "gone" is missing$/m)
    }
    if (name === 'resend')
      expect(template).toMatchObject({
        html_body: `{% set name = name|default("y\\"o'u") %}<p>{{ name|default('')|safe }}</p>`,
      })
    await api('DELETE', `/v1/templates/${template?.['id']}`)

    const found = await takeSuppressions()
    const wanted = {
      'bounce@x.test': 'hard_bounce',
      'spam@x.test': 'complaint',
      'unsub@x.test': 'unsubscribe',
      'group@x.test': 'unsubscribe',
    }
    for (const [address, reason] of Object.entries(wanted))
      if (JSON.stringify(found).includes(address) || address === 'bounce@x.test')
        expect(found[address]).toBe(`${reason} 2023-11-14T22:13:20`)
    if (name === 'sendgrid') {
      expect(made.stdout).toMatch(/^made +bounces +501 +501 new, 0 here before$/m)
      expect(made.stdout).toMatch(/^refused +invalid_emails +1 +no addresses/m)
      expect(made.stdout).toMatch(/^no_counterpart +blocks +1 /m)
      for (let left = 1; left > 0; left = Object.keys(await takeSuppressions()).length);
    }
  })

  test('names a key that is not accepted', async () => {
    const { exitCode, stderr } = await run(name, [], name === 'ses' ? 'AKID:other' : 'other')
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: expect.stringMatching(/, \/\S+, status 40[13]: it does not accept the key/),
    })
  })
})

describe('files', () => {
  const CSV = 'email,reason,status,created\r\nbounce@x.test,"550 no, never",5.1.1,1700000000\r\n'
  const POSTMARK =
    'EmailAddress,SuppressionReason,Origin,CreatedAt\nunsub@x.test,ManualSuppression,Recipient,2023-11-14T22:13:20Z\n'

  test('of several kinds, CSV and JSON, are taken over without a key', async () => {
    const files = [
      write('my bounces.csv', CSV),
      `spam_reports=${write('b.json', REPLIES['sendgrid']?.['/v3/suppression/spam_reports'])}`,
      write('group_unsubscribes.csv', 'email,created_at\ngroup@x.test,1700000000\n'),
      `templates=${write('t.json', REPLIES['sendgrid']?.['/v3/templates/d-1'])}`,
    ]
    const { exitCode, stdout, stderr } = await run('sendgrid', [
      '--apply',
      ...files.flatMap((path) => ['--file', path]),
    ])
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(/\n4 made, 0 exist, 0 refused/)
    expect(await takeSuppressions()).toEqual({
      'bounce@x.test': 'hard_bounce 2023-11-14T22:13:20',
      'spam@x.test': 'complaint 2023-11-14T22:13:20',
      'group@x.test': 'unsubscribe 2023-11-14T22:13:20',
    })
    const [template] = await read('/v1/templates')
    expect(template).toMatchObject({ alias: 'd-1', html_body: JINJA })
    await api('DELETE', `/v1/templates/${template?.['id']}`)
  })

  test('of Postmark and SES have their reasons in a column; a date to come, or none, is now', async () => {
    const lines = 'late@x.test,HardBounce,,2999-01-01\nnone@x.test,SpamComplaint,,soon\n'
    await run('postmark', ['--apply', '--file', write('suppressions.csv', POSTMARK + lines)])
    const ses = {
      SuppressedDestinationSummaries: [{ EmailAddress: 's@x.test', Reason: 'COMPLAINT', LastUpdateTime: ISO }],
    }
    await run('ses', ['--apply', '--file', write('ses.json', ses)])
    const found = await takeSuppressions()
    expect(found['unsub@x.test']).toBe('unsubscribe 2023-11-14T22:13:20')
    expect(found['s@x.test']).toBe('complaint 2023-11-14T22:13:20')
    const year = new Date().getFullYear()
    expect(found['late@x.test']).toStartWith(`hard_bounce ${year}`)
    expect(found['none@x.test']).toStartWith(`complaint ${year}`)
  })

  test('with rows that lack a time, are no objects, or have cells no address can have, lose only those', async () => {
    const rows = [null, { email: 'a@x.test' }, { email: `${'x'.repeat(1e6)}@x.test`, created: SECONDS }]
    const odd = [...rows, { email: 'n\0ul@x.test', created: SECONDS }, { email: 'B@X.test', created: SECONDS }]
    const lines = '\ufeffemail;reason;created\r\n"c@x.test";"a\n""b""";\r\nd@x.test;x;1700000000\r\n'
    const files = [write('bounces.json', odd), write('bounces.csv', lines), `templates=${write('t.json', [null, {}])}`]
    const { stdout } = await run('sendgrid', ['--apply', ...files.flatMap((path) => ['--file', path])])
    expect(stdout).toMatch(/^refused +bounces +3 +no addresses/m)
    expect(stdout).toMatch(/^refused +template +it has no body; it has no id$/m)
    expect(Object.keys(await takeSuppressions()).toSorted()).toEqual(['a@x.test', 'b@x.test', 'c@x.test', 'd@x.test'])
  })

  test('that say themselves why are believed, whatever kind they are said to be', async () => {
    const lines = 'dead@x.test,HardBounce,,2023-11-14\n'
    const { stdout } = await run('sendgrid', ['--apply', '--file', write('unsubscribes.csv', POSTMARK + lines)])
    expect(stdout).toMatch(/^made +unsubscribes +2 /m)
    expect(await takeSuppressions()).toMatchObject({
      'dead@x.test': 'hard_bounce 2023-11-14T00:00:00',
      'unsub@x.test': 'unsubscribe 2023-11-14T22:13:20',
    })
  })

  test('that are larger than a request: rows go in parts, and CSV is refused with a sentence', async () => {
    const row = { email: `${'a'.repeat(60)}@x.test`, created_at: SECONDS }
    const rows = write('group_unsubscribes.json', Array(15_000).fill(row))
    const csv = write('spam_reports.csv', `email\n${'a@x.test\n'.repeat(150_000)}`)
    const { stdout } = await run('sendgrid', ['--apply', '--file', rows, '--file', csv])
    expect(stdout).toMatch(/^made +group_unsubscribes +15000 +1 new, 14999 here before$/m)
    expect(stdout).toMatch(/^refused +spam_reports +The request body is larger than the 1048576 bytes allowed/m)
    expect(Object.keys(await takeSuppressions())).toEqual([row.email])
  })

  test.each([
    ['brevo', 'x.csv', 'name,age\nBob,7\n', 1, /^refused +blocked +There is no column email_address among "name"/m],
    ['ses', 'x.json', '{"TemplateName": "a"}', 1, /^refused +suppressions +1 +no addresses, such as: "no address"/m],
    ['mailgun', 'list.csv', CSV, 2, /Say what .*list\.csv has: --file bounces=.*, unsubscribes=/],
    ['resend', 'cut.json', '{"data": [{"email"', 1, /cut\.json is no JSON: it may be cut off/],
    [
      'sendgrid',
      'unsubscribes.csv',
      'email,created\n"a@x.test,1\n',
      1,
      /^refused +unsubscribes +The file cannot be read/m,
    ],
  ])('%s: %s is refused with a sentence', async (name, file, content, exitCode, message) => {
    const failed = await run(name, ['--apply', '--file', write(file, content)])
    expect(failed.exitCode).toBe(exitCode)
    expect(failed.stderr + failed.stdout).toMatch(message)
    expect(await read('/v1/suppressions')).toEqual([])
  })
})

describe('an API', () => {
  test('that limits requests is asked again after its Retry-After, and given up for a long one', async () => {
    limits.push('0', '1')
    expect((await run('resend')).stdout).toContain('2 to make')
    limits.push('3600')
    expect((await run('resend')).stderr).toMatch(
      /status 429: it limits requests, for 3600 s\. Run the import again later/,
    )
    limits.push(...Array(5).fill('0'))
    expect((await run('resend')).stderr).toMatch(/limits requests, for 0 s/)
  })

  test.each<[string, () => Response, RegExp]>([
    ['broken JSON', () => new Response('<html>Bad gateway', { status: 200 }), /status 200: The response is not JSON/],
    ['another object', () => Response.json({ ok: true }), /responds to \/suppressions without a list "data"/],
    ['an error', () => Response.json({ message: 'oops' }, { status: 500 }), /status 500: oops/],
    [
      'itself as the next page',
      () => Response.json({ has_more: true, data: [{ id: '1' }] }),
      /does not end its list at \/suppressions: import a file/,
    ],
    ['a redirect', () => Response.redirect('http://127.0.0.1:9/'), /status 302: The service redirects to http/],
  ])(
    'that answers the second page with %s ends the import, and a repeated one completes it',
    async (_, answer, message) => {
      const whole = REPLIES['resend']?.['/suppressions'] as (query: URLSearchParams) => Json
      const replies = REPLIES['resend'] as Record<string, Reply>
      replies['/suppressions'] = (query) => (query.has('after') ? answer() : whole(query))
      expect(await run('resend', ['--apply'])).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(message) })
      replies['/suppressions'] = whole
      await run('resend', ['--apply'])
      expect(Object.keys(await takeSuppressions()).length).toBe(2)
      for (const { id } of await read('/v1/templates')) await api('DELETE', `/v1/templates/${id}`)
    },
  )

  test('needs a domain, a region, a key of one line and a URL', async () => {
    const fails = async (args: string[]) => (await runTassis(['import', ...args], data.settings)).stderr
    const key = ['--key-file', write('key', 'a\n')]
    expect(await fails(['mailgun', ...key])).toContain('Say of which domain at Mailgun: --domain.')
    expect(await fails(['ses', ...key])).toContain('Say of which region at Amazon SES: --region.')
    expect(await fails(['brevo', '--key-file', write('key', 'a\nb')])).toContain('The key must be one line')
    expect(await fails(['brevo', '--key-file', write('key', 'a'), '--url', 'nothing'])).toContain(
      "'nothing' is invalid. It must be a URL",
    )
  })
})
