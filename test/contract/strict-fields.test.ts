/** @module Every answer of the interface has its fields, and marks all others in the API description. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { fetchDescription, resolveSchemas } from './api-description.ts'
import { INTERFACE_FIELDS, NULLABLE_FIELDS } from './interface-fields.ts'

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly type?: string
  readonly 'x-tassis'?: boolean
}
interface Operation {
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, { schema: Schema }>> }>>
}

let service: TestApi
let paths: Record<string, Record<string, Operation>>
beforeAll(async () => {
  service = await createTestApi()
  const served = await fetchDescription<{ paths: typeof paths; components: { schemas: Record<string, Schema> } }>(
    service.url,
  )
  paths = resolveSchemas(served.paths, served)
})
afterAll(() => service[Symbol.asyncDispose]())

/** Paths of the fields that are not marked as additional and may be null. */
function* nullableFieldsOf(schema: Schema, prefix = ''): Generator<string> {
  for (const variant of schema.anyOf ?? []) yield* nullableFieldsOf(variant, prefix)
  if (schema.items) yield* nullableFieldsOf(schema.items, prefix)
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (property['x-tassis']) continue
    if (property.anyOf?.some(({ type }) => type === 'null')) yield prefix + name
    yield* nullableFieldsOf(property, `${prefix}${name}.`)
  }
}

/** Paths of the fields that are not marked as additional, down to those that the table does not go into. */
function* fieldsOf(schema: Schema, table: ReadonlySet<string>, prefix = ''): Generator<string> {
  for (const variant of schema.anyOf ?? []) yield* fieldsOf(variant, table, prefix)
  if (schema.items) yield* fieldsOf(schema.items, table, prefix.replace(/\.$/, '[].'))
  const isFreeForm = prefix !== '' && ![...table].some((field) => field.startsWith(prefix))
  if (isFreeForm) return
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (property['x-tassis']) continue
    yield prefix + name
    yield* fieldsOf(property, table, `${prefix}${name}.`)
  }
}

function getSchema(route: string): Schema {
  const [method = '', path = ''] = route.split(' ')
  const { responses } = paths[path]?.[method.toLowerCase()] ?? { responses: {} }
  const success = Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1]
  return success?.content?.['application/json']?.schema ?? {}
}

test.each(Object.entries(INTERFACE_FIELDS))(
  '%s has the fields of the interface, and marks all others',
  (route, fields) => {
    expect([...new Set(fieldsOf(getSchema(route), new Set(fields)))].sort()).toEqual([...fields].sort())
  },
)

test('fields of the interface are null only where its clients expect that', () => {
  const nullable: Record<string, Set<string>> = {}
  for (const route of Object.keys(INTERFACE_FIELDS)) {
    const [, , , resource = ''] = route.split(/[ /]/)
    nullable[resource] ??= new Set()
    for (const field of nullableFieldsOf(getSchema(route))) nullable[resource].add(field.replace(/^data\./, ''))
  }
  const sorted = (fields: Iterable<string>) => [...fields].sort()
  const toSorted = (table: Readonly<Record<string, Iterable<string>>>) =>
    Object.fromEntries(Object.entries(table).map(([resource, fields]) => [resource, sorted(fields)]))
  expect(toSorted(nullable)).toEqual(toSorted(NULLABLE_FIELDS))
})
