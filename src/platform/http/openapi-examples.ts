/** @module Creates an example of a schema in the API description: of requests, the required fields; of responses, all. */

/** What examples and pages read of a schema of the description. */
export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly format?: string
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
}

const BY_FORMAT: Readonly<Record<string, string>> = {
  uuid: '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24',
  'date-time': '2026-01-31T09:30:00.000Z',
  date: '2026-01-31',
  email: 'ada@example.com',
  uri: 'https://example.com/',
}

/** Examples of texts by the name of the field. */
const BY_NAME: readonly (readonly [name: RegExp, example: string])[] = [
  [/^(?:from|from_address|reply_to|sender|mail_from|from_header|welcome_email_from_address)$/, 'news@example.com'],
  [
    /^(?:to|cc|bcc|email|address|recipients?|complainer|received_for)$|^(?:to|cc|email)_|_email$|rcpt_to/,
    'ada@example.net',
  ],
  [/message_id$|^in_reply_to$|^references$/, '<01980f4e6b1c7d3a@example.com>'],
  [/url$|link$/, 'https://example.com/'],
  [/^domains?$|_domain$|^host$|hostname$|^zone$/, 'example.com'],
  [/^ip$|_ip$|ip_address$|^networks$|^inbound_addr$/, '192.0.2.1'],
  [/subject/, 'Your invoice'],
  [/html/, '<p>Thank you.</p>'],
  [/text/, 'Thank you.'],
  [/^filename$/, 'invoice.pdf'],
  [/content_type$/, 'application/pdf'],
  [/^content$/, 'aGVsbG8='],
  [/password/, 'correct horse battery staple'],
  [/color$/, '#1a2b3c'],
  [/smtp_response$|diagnostic_code$/, '550 5.1.1 No such user'],
  [/bounce_category$/, 'invalid_recipient'],
  [/user_agent$/, 'Mozilla/5.0'],
  [/remote_mta$/, 'mx.example.net [192.0.2.25]'],
  [/^date$/, '2026-01-31'],
  [/^month$/, '2026-01'],
  [/alias$|slug$|^tags?$|^labels?$/, 'invoice'],
  [/stream$/, 'transactional'],
  [/^plan$/, 'starter'],
  [/^status$/, 'queued'],
  [/(?:^|_)(?:message|reason|error|summary|detail|details|description|advice|warnings)$/, 'A sentence about it.'],
  [/name$/, 'Example'],
  [/_at$/, '2026-01-31T09:30:00.000Z'],
  [/^id$|_id$/, '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24'],
]

/** Where the description of a text states one: "such as x", "Always x.", "Default: x", "x, y or z". */
const STATED: readonly RegExp[] = [
  /\bsuch as `?([^\s,;`]+?)`?[.,;]/i,
  /^Always (\S+)\.$/,
  /Default: ([^.]+)/,
  /(?:^|: |One of )`?([a-z][a-z0-9_]*)`?(?:, `?[a-z][a-z0-9_.]*`?)*,? or `?[a-z]/,
  /^([a-z_]+): /,
]

/**
 * @param isWhole also the fields that are not required
 * @param name of the field that has this schema
 */
export function createExample(schema: Schema, isWhole: boolean, name = ''): unknown {
  const { type, examples, anyOf, items, description, properties = {}, required = [], minimum } = schema
  if (examples?.[0] !== undefined) return examples[0]
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  const variant = anyOf?.find((each) => each.type !== 'null') ?? anyOf?.[0]
  if (variant) return createExample({ ...(description && { description }), ...variant }, isWhole, name)
  const kind = typeof type === 'string' ? type : type?.find((each) => each !== 'null')
  switch (kind) {
    case 'array':
      return items ? [createExample({ ...(description && { description }), ...items }, isWhole, name)] : []
    case 'object':
      return Object.fromEntries(
        Object.entries(properties).flatMap(([field, part]) =>
          isWhole || required.includes(field) ? [[field, createExample(part, isWhole, field)]] : [],
        ),
      )
    case 'integer':
    case 'number':
      return schema.default ?? minimum ?? 1
    case 'boolean':
      return schema.default ?? true
    case 'string':
      return createText(schema, name)
    default:
      return kind === 'null' ? null : {}
  }
}

function createText(schema: Schema, name: string): string {
  const { format, description = '', maxLength = Number.POSITIVE_INFINITY, minLength = 0 } = schema
  const stated = STATED.map((pattern) => pattern.exec(description)?.[1]).find((text) => text !== undefined)
  const text = (format && BY_FORMAT[format]) ?? (stated === 'empty' ? '' : stated) ?? findByName(name) ?? 'example'
  return text.slice(0, maxLength).padEnd(minLength, 'x')
}

/** @param name of the field, also in PascalCase as other providers write it */
function findByName(name: string): string | undefined {
  const words = name.replace(/([a-z])([A-Z])/g, '$1_$2').toLowerCase()
  return BY_NAME.find(([pattern]) => pattern.test(words))?.[1]
}
