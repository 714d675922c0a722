/**
 * @module Contacts, their segments and topics; segments, also by their former name audiences. A segment is a contact
 * list, a contact an address on any of them, a topic a stream. A contact in no segment is on the list `General`, which
 * is made for it.
 */
import * as audience from '#features/audience/contact-lists/contacts.ts'
import type { App } from '#features/core/app/app.ts'
import { changeList, createList, deleteList } from '#features/setup/contact-store/change-list.ts'
import { type Contact, findContact, listContacts } from '#features/setup/contact-store/find.ts'
import * as store from '#features/setup/contact-store/lists.ts'
import * as streams from '#features/setup/streams/streams.ts'
import { EVERY, suppressionOf } from '#features/setup/suppression-store/check.ts'
import { attempt } from '#platform/attempt.ts'
import { openSealedToken, sealedTokenLength, sealToken } from '#platform/crypto/sealed-token.ts'
import type { RowWindow } from '#platform/db/row-window.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import { readFlag, readText, requireText } from './body.ts'
import { pageOf, readPage, sourceByRowId } from './list.ts'
import { type Call, on, toDeleted, toReference } from './route.ts'

const READS = 'contacts:read'
const WRITES = 'contacts:write'

const CHANGEABLE = ['first_name', 'last_name', 'unsubscribed', 'properties']
const GENERAL = 'General'
const MAX_NAMED = 100

const listSegmentRoutes = (name: string) => [
  on(`GET /${name}`, READS, listSegments),
  on(`POST /${name}`, WRITES, async (call) => {
    const list = await createList(call.app, call.actor, { name: requireText(call.read(['name']), 'name') })
    return { object: 'segment', ...toSegment(list) }
  }),
  on(`GET /${name}/:id`, READS, (call) => ({ object: 'segment', ...toSegment(getSegment(call, call.id)) })),
  on(`PATCH /${name}/:id`, WRITES, async ({ app, actor, id, read }) =>
    toReference('segment', await changeList(app, actor, id, { name: requireText(read(['name']), 'name') })),
  ),
  on(`DELETE /${name}/:id`, WRITES, ({ app, actor, id }) =>
    deleteList(app, actor, id).then(() => toDeleted('segment', id)),
  ),
  on(`GET /${name}/:id/contacts`, READS, listMembers),
  on(`POST /${name}/:id/contacts`, WRITES, (call) =>
    createContact(call, call.read(['email', ...CHANGEABLE]), { listIds: [call.id] }),
  ),
  on(`GET /${name}/:id/contacts/:part`, READS, (call) => toDetail(call.app, requireMember(call, call.id, call.part))),
  on(`PATCH /${name}/:id/contacts/:part`, WRITES, (call) =>
    changeContact(call, requireMember(call, call.id, call.part)),
  ),
  on(`DELETE /${name}/:id/contacts/:part`, WRITES, async (call) => {
    await audience.removeContact(call.app, call.actor, call.id, requireMember(call, call.id, call.part)[0].email)
    return { object: 'contact', contact: call.part, deleted: true }
  }),
]

export const contactRoutes = [
  ...listSegmentRoutes('segments'),
  ...listSegmentRoutes('audiences'),
  on('GET /contacts', READS, listAll),
  on('POST /contacts', WRITES, (call) => {
    const wanted = call.read(['email', ...CHANGEABLE, 'segments', 'topics'])
    const listIds = readItems(wanted['segments'] ?? [], 'segments').map((segment) => requireText(segment, 'id'))
    return createContact(call, wanted, { listIds, unsubscribed: readTopics(call, wanted['topics'] ?? []) })
  }),
  on('GET /contacts/:id', READS, (call) => toDetail(call.app, requireContact(call))),
  on('PATCH /contacts/:id', WRITES, (call) => changeContact(call, requireContact(call))),
  on('DELETE /contacts/:id', WRITES, async (call) => {
    await audience.removeAddress(call.app, call.actor, requireContact(call)[0].email)
    return { object: 'contact', contact: call.id, deleted: true }
  }),
  on('GET /contacts/:id/segments', READS, (call) => {
    const lists = requireContact(call).flatMap(({ listId }) => store.findListById(call.app.db, listId) ?? [])
    return pageOf(call.query, lists.map(toSegment))
  }),
  on('POST /contacts/:id/segments/:part', WRITES, async (call) => {
    await audience.changeAddress(call.app, call.actor, requireContact(call)[0].email, { listIds: [call.part] })
    return { id: call.part.toLowerCase() }
  }),
  on('DELETE /contacts/:id/segments/:part', WRITES, leaveSegment),
  on('GET /contacts/:id/topics', READS, (call) => pageOf(call.query, toTopics(call, requireContact(call)[0].email))),
  on('PATCH /contacts/:id/topics', WRITES, async (call) => {
    const contacts = requireContact(call)
    await audience.changeAddress(call.app, call.actor, contacts[0].email, { unsubscribed: readTopics(call, call.body) })
    return { id: toId(call.app, contacts) }
  }),
]

/** The contacts of an address on their lists. */
type Contacts = readonly [Contact, ...Contact[]]

async function createContact(
  call: Call,
  wanted: JsonObject,
  { listIds = [], unsubscribed = [] }: audience.AddressChange,
) {
  const { app, actor, accountId } = call
  const email = requireText(wanted, 'email')
  const isHomeless = listIds.length === 0 && audience.findContactsOf(app.db, accountId, email).length === 0
  await audience.changeAddress(app, actor, email, {
    listIds: isHomeless ? [await requireGeneral(call)] : listIds,
    metadata: readMetadata(wanted),
    // Programs say `false` of everybody whom they add; that must not bring back who has left.
    unsubscribed: readFlag(wanted, 'unsubscribed') ? [...unsubscribed, [EVERY, true]] : unsubscribed,
  })
  return { object: 'contact', id: toId(app, requireContact({ ...call, id: email })) }
}

async function changeContact({ app, actor, read }: Call, contacts: Contacts) {
  const wanted = read(CHANGEABLE)
  const isUnsubscribed = readFlag(wanted, 'unsubscribed')
  const unsubscribed = isUnsubscribed === undefined ? [] : [[EVERY, isUnsubscribed] as const]
  await audience.changeAddress(app, actor, contacts[0].email, { metadata: readMetadata(wanted), unsubscribed })
  return { object: 'contact', id: toId(app, contacts) }
}

async function requireGeneral({ app, actor, accountId }: Call): Promise<string> {
  const list = store.findListByName(app.db, accountId, GENERAL) ?? (await createList(app, actor, { name: GENERAL }))
  return formatUuid(list.uuid)
}

/** A contact that leaves its last segment stays a contact. */
async function leaveSegment(call: Call) {
  const { app, actor, id, part } = call
  const contacts = requireContact(call)
  const [{ email }] = requireMember(call, part, id)
  if (contacts.length === 1) {
    const general = await requireGeneral(call)
    if (general === part.toLowerCase())
      throw invalid('segment', `The contact is in no segment but ${GENERAL}; delete the contact instead.`)
    await audience.changeAddress(app, actor, email, { listIds: [general] })
  }
  await audience.removeContact(app, actor, part, email)
  return { object: 'contact', id: toId(app, contacts), audienceId: part.toLowerCase(), deleted: true }
}

/** Names and properties are entries of the metadata; an empty name is removed, so that fallbacks apply. */
function readMetadata(wanted: JsonObject): JsonObject {
  const properties = wanted['properties'] ?? {}
  const isProperty = ([key, value]: [string, unknown]) =>
    /^[A-Za-z_]\w{0,49}$/.test(key) && (value === null || typeof value !== 'object')
  if (!isJsonObject(properties) || !Object.entries(properties).every(isProperty))
    throw invalid(
      'properties',
      'properties must be an object with names of up to 50 letters, digits and "_", and texts, numbers or null.',
    )
  const names = ['first_name', 'last_name'].filter((name) => wanted[name] !== undefined)
  return { ...properties, ...Object.fromEntries(names.map((name) => [name, readText(wanted, name) || null])) }
}

function readItems(value: unknown, field: string): JsonObject[] {
  if (!Array.isArray(value) || value.length > MAX_NAMED || !value.every(isJsonObject))
    throw invalid(field, `${field} must be an array of at most ${MAX_NAMED} objects.`)
  return value
}

const readTopics = ({ app, accountId }: Call, value: unknown) =>
  readItems(value, 'topics').map((topic) => {
    const subscription = requireText(topic, 'subscription')
    if (subscription !== 'opt_in' && subscription !== 'opt_out')
      throw invalid('subscription', 'subscription must be opt_in or opt_out.')
    return [requireTopic(app, accountId, requireText(topic, 'id')).id, subscription === 'opt_out'] as const
  })

const CONTEXT = 'resend contact id'
const MAX_ID_LENGTH = sealedTokenLength(1024)

/** The id of a contact is its address, sealed: it stays the same whatever lists the contact joins and leaves. */
const toId = ({ keys }: Pick<App, 'keys'>, [{ addressKey }]: Contacts): string =>
  sealToken(keys, CONTEXT, [Buffer.from(addressKey)])

const toAddress = ({ keys }: App, id: string): string =>
  id.includes('@') ? id : (openSealedToken(keys, CONTEXT, id, MAX_ID_LENGTH)?.takeRest().toString() ?? '')

function requireContact({ app, accountId, id }: Call): Contacts {
  const [first, ...others] = audience.findContactsOf(app.db, accountId, toAddress(app, id))
  if (!first) throw notFound('contact_not_found', 'Contact not found; name it by its id or its address.')
  return [first, ...others]
}

const getSegment = ({ app, accountId }: Call, id: string): store.ContactList => store.getList(app.db, accountId, id)

function requireMember(call: Call, segment: string, contact: string): Contacts {
  const found = findContact(call.app.db, getSegment(call, segment).id, toAddress(call.app, contact))
  if (!found) throw notFound('contact_not_found', 'The segment has no such contact.')
  return [found]
}

function listSegments(call: Call) {
  const { app, accountId, query } = call
  const listBelow = (window: RowWindow) => store.listContactLists(app.db, accountId, window).lists
  const source = sourceByRowId(app.db, ['contact_lists', accountId], (id) => getSegment(call, id), listBelow)
  return readPage(query, source, toSegment)
}

function listMembers(call: Call) {
  const { db } = call.app
  const list = getSegment(call, call.id)
  const find = (id: string) => findContact(db, list.id, toAddress(call.app, id))
  const listBelow = (window: RowWindow) => listContacts(db, list, {}, window).contacts
  return readPage(call.query, sourceByRowId(db, ['contacts', list.id], find, listBelow), (contact) =>
    toListed(call.app, [contact]),
  )
}

function listAll(call: Call) {
  const { app, accountId, query } = call
  const list = (side: 'after' | 'before', of: string, limit: number) =>
    audience.listAddresses(app.db, accountId, side, of, limit)
  const source = {
    find: (id: string) => ({ id: requireContact({ ...call, id })[0].addressKey }),
    listBelow: ({ after = [''], limit }: RowWindow) => list('after', String(after[0]), limit),
    listAbove: ({ id }: { id: string }, limit: number) => list('before', id, limit),
  }
  return readPage(query, source, ({ id }) => toListed(app, requireContact({ ...call, id })))
}

export const toSegment = ({ uuid, name, createdAt }: store.ContactList) => ({
  id: formatUuid(uuid),
  name,
  created_at: isoTime(createdAt),
})

const parseMetadata = ([{ metadata }]: Contacts): JsonObject => JSON.parse(metadata ?? '{}') as JsonObject

/** A contact is unsubscribed when no list has it as active or pending. */
export function toListed(app: Pick<App, 'keys'>, contacts: Contacts) {
  const { first_name: first, last_name: last } = parseMetadata(contacts)
  return {
    id: toId(app, contacts),
    email: contacts[0].email,
    first_name: typeof first === 'string' ? first : null,
    last_name: typeof last === 'string' ? last : null,
    created_at: isoTime(contacts[0].createdAt),
    unsubscribed: contacts.every(({ status }) => status !== 'active' && status !== 'pending'),
  }
}

const toProperty = (value: unknown) =>
  typeof value === 'number'
    ? { type: 'number' as const, value }
    : { type: 'string' as const, value: typeof value === 'string' ? value : JSON.stringify(value) }

export function toDetail(app: Pick<App, 'keys'>, contacts: Contacts) {
  const { first_name, last_name, ...others } = parseMetadata(contacts)
  const properties = Object.entries(others).map(([key, value]) => [key, toProperty(value)] as const)
  return { object: 'contact' as const, ...toListed(app, contacts), properties: Object.fromEntries(properties) }
}

export const toTopics = ({ app, accountId }: Pick<Call, 'app' | 'accountId'>, address: string) =>
  listTopics(app, accountId).map(({ id: streamId, uuid, name }) => {
    const stopped = suppressionOf(app.db, { accountId, address, transactional: false, streamId })
    const subscription = stopped ? ('opt_out' as const) : ('opt_in' as const)
    return { id: formatUuid(uuid), name, description: null, subscription }
  })

/** `app` passes what knows the mail of a stream. */
export interface TopicRouteOptions {
  readonly hasOpenMail: streams.HasOpenMail
}

/** Older topics of an account are not listed. */
const MAX_TOPICS = 1000
const MAX_SLUG_LENGTH = 63
const READS_TOPICS = 'emails:read'
const WRITES_TOPICS = 'emails:send contacts:write'

export const topicRoutes = ({ hasOpenMail }: TopicRouteOptions) => [
  on('GET /topics', READS_TOPICS, ({ app, accountId }) => ({
    ...{ object: 'list', has_more: false },
    data: listTopics(app, accountId).map(toTopic),
  })),
  on('POST /topics', WRITES_TOPICS, async ({ app, actor, read }) => {
    const wanted = read(['name', 'default_subscription'])
    const name = requireText(wanted, 'name')
    if (requireText(wanted, 'default_subscription') !== 'opt_in')
      throw invalid(
        'default_subscription',
        'default_subscription must be opt_in: here everybody gets the mail of a topic who has not opted out; for another one, make a segment of those who want it.',
      )
    const slug = (name.toLowerCase().match(/[a-z0-9]+/g) ?? ['topic']).join('-').slice(0, MAX_SLUG_LENGTH)
    return toReference('topic', await streams.createStream(app, actor, { slug, name }))
  }),
  on('GET /topics/:id', READS_TOPICS, ({ app, accountId, id }) => toTopic(streams.getStream(app.db, accountId, id))),
  on('PATCH /topics/:id', WRITES_TOPICS, async ({ app, actor, id, read }) =>
    toReference('topic', await streams.changeStream(app, actor, id, { name: readText(read(['id', 'name']), 'name') })),
  ),
  on('DELETE /topics/:id', WRITES_TOPICS, ({ app, actor, id }) =>
    streams.deleteStream(app, actor, id, hasOpenMail).then(() => toDeleted('topic', id)),
  ),
]

/** The stream that a field `topic_id` names. */
export function requireTopic(app: App, accountId: number, id: string): streams.Stream {
  const stream = attempt(() => streams.getStream(app.db, accountId, id))
  if (!stream) throw invalid('topic_id', 'topic_id must be the id of a topic; GET /topics lists them.')
  return stream
}

/** Not the stream of mail that nobody unsubscribes from. */
export const listTopics = (app: App, accountId: number): streams.Stream[] =>
  streams
    .listStreams(app.db, accountId, { limit: MAX_TOPICS, offset: 0 })
    .streams.filter(({ slug }) => slug !== streams.DEFAULT_STREAM)

export const toTopic = (stream: streams.Stream) => ({
  ...toReference('topic', stream),
  name: stream.name,
  default_subscription: 'opt_in' as const,
  created_at: isoTime(stream.createdAt),
})
