/** @module DMARC aggregate reports in the forms of ten reporters, made up from seeded random numbers. For tests. */
import { gzipSync } from 'node:zlib'
import { strToU8, zipSync } from 'fflate'
import { seededRandom } from '#test/support/random.ts'

/** A record, with the names of its XML elements. */
export interface SampleRecord {
  readonly ip: string
  readonly count: number
  readonly disposition?: 'none' | 'quarantine' | 'reject'
  readonly dkim?: 'pass' | 'fail'
  readonly spf?: 'pass' | 'fail'
  /** domain, selector, result and human_result of each signature. */
  readonly signatures?: readonly (readonly [string, string, string, string?])[]
  /** domain and result. */
  readonly sender?: readonly [string, string]
  readonly reason?: string
}

interface Dialect {
  readonly organisation: string
  readonly pack: 'gz' | 'zip' | 'xml'
  readonly root?: string
  /** Prefix of all elements. */
  readonly prefix?: string
  readonly lacks?: readonly string[]
  readonly isCrLf?: boolean
}

const DIALECTS: readonly Dialect[] = [
  { organisation: 'google.com', pack: 'zip', lacks: ['envelope_from', 'scope'] },
  {
    organisation: 'Enterprise Outlook',
    pack: 'gz',
    root: ' xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"',
    isCrLf: true,
  },
  { organisation: 'Yahoo', pack: 'gz', lacks: ['scope', 'envelope_from', 'fo'] },
  { organisation: 'Mail.Ru', pack: 'gz', lacks: ['selector', 'human_result'] },
  { organisation: 'Fastmail Pty Ltd', pack: 'zip', lacks: ['envelope_from'] },
  { organisation: 'comcast.net', pack: 'gz', lacks: ['fo', 'sp'] },
  { organisation: 'GMX & 1&1', pack: 'xml', prefix: 'ns0:', root: ' xmlns:ns0="http://dmarc.org/dmarc-xml/0.1"' },
  { organisation: 'Mimecast "Ltd" <DE>', pack: 'gz', lacks: ['envelope_from', 'disposition'] },
  { organisation: 'AMAZON-SES', pack: 'gz', lacks: ['auth_results'] },
  { organisation: 'Apple Mail', pack: 'zip', root: ' xmlns="urn:ietf:params:xml:ns:dmarc-2.0"' },
]

const escapeXml = (text: string): string => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;')

export interface SampleReport {
  readonly name: string
  readonly organisation: string
  readonly content: Uint8Array
}

export interface ReportFacts {
  readonly id: string
  readonly begin: number
  readonly domain?: string
  readonly policy?: string
}

/** A report as a reporter writes it; without a dialect as most do. */
export function writeReport(records: readonly SampleRecord[], facts: ReportFacts, dialect = DIALECTS[1]): SampleReport {
  const {
    organisation,
    pack,
    root = '',
    prefix = '',
    lacks = [],
    isCrLf,
  } = dialect ?? { organisation: '', pack: 'xml' }
  const { id, begin, domain = 'sender.test', policy = 'none' } = facts
  const tag = (name: string, ...inner: (string | number | undefined)[]) =>
    lacks.includes(name) ? '' : `<${prefix}${name}>${inner.join('')}</${prefix}${name}>\n`
  const text = (name: string, value: string | number | undefined) =>
    value === undefined ? '' : tag(name, escapeXml(String(value)))
  const written = records.map(({ ip, count, disposition = 'none', dkim, spf, signatures = [], sender, reason }) =>
    tag(
      'record',
      tag(
        'row',
        text('source_ip', ip),
        text('count', count),
        tag(
          'policy_evaluated',
          text('disposition', disposition),
          text('dkim', dkim ?? 'fail'),
          text('spf', spf ?? 'fail'),
          reason === undefined ? '' : tag('reason', text('type', reason), text('comment', 'a<b')),
        ),
      ),
      tag('identifiers', text('envelope_from', sender?.[0]), text('header_from', domain)),
      tag(
        'auth_results',
        ...signatures.map(([name, selector, result, note]) =>
          tag(
            'dkim',
            text('domain', name),
            text('selector', selector),
            text('result', result),
            text('human_result', note),
          ),
        ),
        tag(
          'spf',
          text('domain', sender?.[0] ?? domain),
          text('scope', 'mfrom'),
          text('result', sender?.[1] ?? 'none'),
        ),
      ),
    ),
  )
  const xml = `<?xml version="1.0" encoding="UTF-8" ?>\n<${prefix}feedback${root}>${[
    text('version', '1.0'),
    tag(
      'report_metadata',
      text('org_name', organisation),
      text('email', 'dmarc@reporter.test'),
      text('report_id', id),
      tag('date_range', text('begin', begin / 1000), text('end', begin / 1000 + 86_399)),
    ),
    tag('policy_published', text('domain', domain), text('p', policy), text('sp', policy), text('fo', '1')),
    ...written,
  ].join('')}</${prefix}feedback>\n`
  const bytes = strToU8(isCrLf ? xml.replaceAll('\n', '\r\n') : xml)
  const name = `reporter.test!${domain}!${begin / 1000}!${begin / 1000 + 86_399}`
  const content = pack === 'gz' ? gzipSync(bytes) : pack === 'zip' ? zipSync({ [`${name}.xml`]: bytes }) : bytes
  return { name: `${id}.${pack === 'gz' ? 'xml.gz' : pack}`, organisation, content }
}

/** Ten reports of each of ten reporters, about the days from `begin` on. */
export function writeSamples(begin: number): SampleReport[] {
  const random = seededRandom(34)
  const pick = <T>(...values: readonly [T, ...T[]]): T => values[random.between(0, values.length - 1)] ?? values[0]
  return DIALECTS.flatMap((dialect, index) =>
    Array.from({ length: 10 }, (_, day) => {
      const records = Array.from({ length: random.between(1, 30) }, (): SampleRecord => {
        const dkim = pick('pass' as const, 'fail' as const)
        return {
          ip: pick(`198.51.100.${random.between(1, 9)}`, '2001:DB8:0:0::1', '2001:db8::1', '192.0.2.25'),
          count: random.between(1, 1000),
          disposition: pick('none', 'quarantine', 'reject'),
          dkim,
          spf: pick('pass', 'fail'),
          signatures: pick(
            [],
            [['sender.test', 's1', dkim]],
            [
              ['sendgrid.net', 's2', 'pass'],
              ['x.test', 's3', 'fail'],
            ],
          ),
          sender: pick(['send.sender.test', 'fail'], ['bounces.test', 'pass'], ['sender.test', 'softfail']),
          ...(random.chance(0.2) && { reason: pick('forwarded', 'mailing_list', 'local_policy') }),
        }
      })
      return writeReport(records, { id: `${index}-${day}`, begin: begin + day * 86_400_000 }, dialect)
    }),
  )
}
