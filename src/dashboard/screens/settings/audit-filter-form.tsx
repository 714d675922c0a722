/** @module The filters of the audit log. */
import { Button, Group, NativeSelect, SimpleGrid, TextInput } from '@mantine/core'
import { useId, useState } from 'react'
import { bindText, Form } from '../../parts/form.tsx'
import { SEARCH_MARK } from '../../parts/keyboard.tsx'
import type { Search } from '../../parts/search.ts'
import { ACTOR_TYPES, type AuditFilters, hasFilters, parseAuditSearch } from './audit-filters.ts'
import { KNOWN_ACTIONS, type KnownActors } from './audit-format.ts'

interface AuditFilterFormProps {
  readonly filters: AuditFilters
  readonly actors: KnownActors
  onChange(filters: AuditFilters): void
}

const TYPE_PREFIX = 'type '
const ID_PREFIX = 'id '

/** One field for both filters of the actor. */
const toActorChoice = ({ actor_id: id, actor_type: type }: AuditFilters): string =>
  id !== undefined ? ID_PREFIX + id : type !== undefined ? TYPE_PREFIX + type : ''

function toActorFilter(choice: string): Search {
  if (choice.startsWith(ID_PREFIX)) return { actor_id: choice.slice(ID_PREFIX.length) }
  return choice.startsWith(TYPE_PREFIX) ? { actor_type: choice.slice(TYPE_PREFIX.length) } : {}
}

function listActorOptions({ users, keys }: KnownActors, chosenId: string | undefined) {
  const isKnown = chosenId === undefined || users.has(chosenId) || keys.has(chosenId)
  return [
    { value: '', label: 'Anybody' },
    ...Object.entries(ACTOR_TYPES).map(([type, label]) => ({ value: TYPE_PREFIX + type, label })),
    ...[...users].map(([id, email]) => ({ value: ID_PREFIX + id, label: email })),
    ...[...keys].map(([id, name]) => ({ value: ID_PREFIX + id, label: `API key ${name}` })),
    ...(isKnown ? [] : [{ value: ID_PREFIX + chosenId, label: chosenId }]),
  ]
}

export function AuditFilterForm({ filters, actors, onChange }: AuditFilterFormProps) {
  const [values, setValues] = useState(filters)
  const [actor, setActor] = useState(() => toActorChoice(filters))
  const actionsId = useId()
  const submit = () => {
    const { actor_id: _id, actor_type: _type, ...others } = values
    onChange(parseAuditSearch({ ...others, ...toActorFilter(actor) }))
  }
  const field = (name: keyof AuditFilters) => ({
    ...bindText(values[name] ?? '', (value) => setValues((before) => ({ ...before, [name]: value }))),
    autoComplete: 'off',
  })
  return (
    <Form onSubmit={submit} aria-label="Filters" gap="xs">
      <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }} spacing="xs">
        <TextInput
          {...field('action')}
          {...SEARCH_MARK}
          label="Action"
          placeholder="domain.created"
          list={actionsId}
          autoCapitalize="none"
          spellCheck={false}
        />
        <NativeSelect label="Who" {...bindText(actor, setActor)} data={listActorOptions(actors, filters.actor_id)} />
        <TextInput {...field('resource_type')} label="Type of thing" placeholder="domain" spellCheck={false} />
        <TextInput {...field('resource_id')} label="Id of the thing" spellCheck={false} />
        <TextInput {...field('from_date')} label="From day" type="date" />
        <TextInput {...field('to_date')} label="To day" type="date" />
      </SimpleGrid>
      <datalist id={actionsId}>
        {KNOWN_ACTIONS.map((action) => (
          <option key={action} value={action} />
        ))}
      </datalist>
      <Group gap="xs">
        <Button type="submit">Filter</Button>
        {hasFilters(filters) && (
          <Button variant="default" onClick={() => onChange({})}>
            Remove all filters
          </Button>
        )}
      </Group>
    </Form>
  )
}
