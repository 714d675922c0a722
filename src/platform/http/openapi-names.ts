/**
 * @module Names in the API description, from which client generators make functions and types: `listMailboxMessages` by
 * verb and noun, `MailboxMessage` by noun. They come from methods and paths; a few paths would give an odd name and have
 * one of their own.
 */

/** Operations whose names do not follow from their paths. */
const OPERATION_IDS: Readonly<Record<string, string>> = {
  'post /v1/operator/accounts/{id}/api-keys': 'importOperatorAccountApiKey',
  'post /v1/operator/accounts/{id}/templates': 'importOperatorAccountTemplate',
  'post /v1/operator/cluster/step-down': 'stepDownOperatorCluster',
  'post /v1/emails': 'sendEmail',
  'post /v1/emails/batch': 'sendEmailBatch',
  'post /v1/emails/broadcast': 'sendBroadcast',
  'get /v1/domains/{id}/rules': 'getDomainRules',
  'post /v1/domains/{id}/test-email': 'sendDomainTestEmail',
  'post /v1/newsletters/{id}/test-email': 'sendNewsletterTestEmail',
  'post /v1/contact-lists/{id}/contacts': 'addContacts',
  'get /v1/agent-mailboxes/{id}/messages/next': 'getNextMailboxMessage',
  'post /v1/agent-mailboxes/{id}/messages/{mid}/reply': 'replyToMailboxMessage',
  'post /v1/templates/render': 'renderTemplateText',
  'post /v1/validate': 'validateEmail',
  'get /v1/gdpr/export': 'exportPerson',
  'delete /v1/gdpr/erase': 'erasePerson',
  'post /v1/auth/session/password': 'confirmSessionPassword',
  'post /v1/auth/session/code': 'confirmSessionCode',
  'post /v1/auth/session/passkey': 'confirmSessionPasskey',
  'post /v1/auth/passkeys/login': 'loginWithPasskey',
  'post /v1/auth/passkeys/options': 'createPasskeyOptions',
  'post /v1/auth/totp/recovery-codes': 'renewRecoveryCodes',
}

/** What paths call differently, by path without parameters; '': not named. The longest beginning counts. */
const RESOURCES: Readonly<Record<string, string>> = {
  accounts: 'SubAccount',
  'agent-mailboxes': 'Mailbox',
  auth: '',
  'contact-lists/contacts': 'Contact',
  'emails/captured': 'EmailAsCaptured',
  gdpr: '',
  'gdpr/export': 'PersonData',
  inbound: 'InboundEmail',
  'operator/mail': 'OperatorMessage',
  'operator/received': 'OperatorReceivedMessage',
  'operator/received/unparsed': 'OperatorUnparsedMessage',
  people: 'Person',
  'sequences/people': 'SequencePerson',
  team: 'TeamMember',
  'team/invitations': 'TeamInvitation',
  'team/members': 'TeamMember',
}

/** First words of the last segment of a path that are verbs. */
const ACTIONS: ReadonlySet<string> = new Set(
  `acknowledge ack bounce cancel check confirm count drop export find generate hold import login logout match nack pause
  preview redirect release render replay resend restore resume retry reveal rotate run search send test toggle
  verify`.split(/\s+/),
)

/** Words that end like a plural. */
const SINGULARS = /(?:analytics|dns|series|status|address|business)$/i

export const toPascalCase = (text: string): string =>
  text.replace(/(?:^|[-_.])(\w)/g, (_, letter: string) => letter.toUpperCase()).replace(/\W/g, '')

const lowerFirst = (name: string): string => name.charAt(0).toLowerCase() + name.slice(1)

export const toSingular = (name: string): string =>
  SINGULARS.test(name)
    ? name
    : name
        .replace(/ies$/, 'y')
        .replace(/(?<=x|ch|ss)es$/, '')
        .replace(/(?<!s)s$/, '')

const segmentsOf = (path: string): string[] => path.split('/').filter((segment) => segment !== '' && segment !== 'v1')

const withoutParameters = (path: string): string[] => segmentsOf(path).filter((segment) => !segment.startsWith('{'))

/** `/v1/agent-mailboxes/{id}/messages` is a `MailboxMessage`. */
export function nameOfPath(path: string): string {
  const segments = withoutParameters(path)
  for (let count = segments.length; count > 0; count--) {
    const resource = RESOURCES[segments.slice(0, count).join('/')]
    if (resource !== undefined) return [resource, ...segments.slice(count).map(toNoun)].join('')
  }
  return segments.map(toNoun).join('')
}

const toNoun = (segment: string): string => toSingular(toPascalCase(segment))

/** The same in the plural where a path stands for all of its kind. */
function pluralOfPath(path: string): string {
  const name = nameOfPath(path)
  const last = segmentsOf(path).at(-1) ?? ''
  if (last.startsWith('{')) return name
  const isPlural = toNoun(last) !== toPascalCase(last) || withoutParameters(path).join('/') in RESOURCES
  if (!isPlural || name === '') return name
  return /[^aeiou]y$/.test(name) ? `${name.slice(0, -1)}ies` : /(?:x|ch|ss)$/.test(name) ? `${name}es` : `${name}s`
}

/**
 * The id of an operation: an identifier in every language.
 * @param isList whether the response to reading it is a list
 */
export function toOperationId(method: string, path: string, isList: boolean): string {
  const named = OPERATION_IDS[`${method} ${path}`]
  if (named !== undefined) return named
  const last = segmentsOf(path).at(-1) ?? ''
  const [verb = '', ...object] = last.split('-')
  if (ACTIONS.has(verb))
    return lowerFirst(verb + pluralOfPath(path.slice(0, -last.length - 1)) + toPascalCase(object.join('-')))
  const name = nameOfPath(path)
  const plural = pluralOfPath(path)
  if (method === 'get') return plural !== name && isList ? `list${plural}` : `get${name}`
  if (method === 'post') return `create${name}`
  if (method === 'delete') return `delete${plural}`
  return method === 'put' && !last.startsWith('{') ? `set${plural}` : `update${name}`
}
