/** @module The form with the filters of the list of emails, and those in use as chips. */
import { Button, Collapse, Group, NativeSelect, Pill, SimpleGrid, Stack, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useEffect, useId, useState } from 'react'
import { bindText, Form } from '../../parts/form.tsx'
import { toOptions } from '../../parts/format.ts'
import { SEARCH_MARK } from '../../parts/keyboard.tsx'
import { toStatusWord } from '../../parts/status.tsx'
import {
  type EmailFilters,
  FILTER_LABELS,
  FILTER_NAMES,
  type FilterName,
  parseFilters,
  STATUS_FILTERS,
} from './filters.ts'

interface FilterBarProps {
  readonly filters: EmailFilters
  readonly errors: Readonly<Record<string, string>>
  onChange(filters: EmailFilters): void
}

const EXTRA_NAMES = FILTER_NAMES.filter((name) => name !== 'to' && name !== 'status' && name !== 'operation_id')
const EMPTY = Object.fromEntries(FILTER_NAMES.map((name) => [name, ''])) as Record<FilterName, string>
const PLACEHOLDERS: Partial<Record<FilterName, string>> = {
  from: 'ada@example.com',
  subject: 'Whole words',
  tag: 'welcome',
  stream: 'transactional',
  domain: 'example.com',
}

/** Some statuses are shown divided, but are one to `/v1`. */
const toFilterWord = (status: string): string =>
  status === 'queued' ? 'Queued or deferred' : status === 'sent' ? 'Delivered or captured' : toStatusWord(status)

export function FilterBar({ filters, errors, onChange }: FilterBarProps) {
  const [values, setValues] = useState({ ...EMPTY, ...filters })
  const hasExtra = EXTRA_NAMES.some((name) => filters[name] !== undefined) || filters.status !== undefined
  const [isOpen, panel] = useDisclosure(hasExtra)
  const panelId = useId()
  useEffect(() => setValues({ ...EMPTY, ...filters }), [filters])
  const submit = () => onChange(parseFilters(values))
  const field = (name: FilterName) => ({
    label: FILTER_LABELS[name],
    ...bindText(values[name], (value) => setValues((before) => ({ ...before, [name]: value }))),
    error: errors[name],
  })
  return (
    <Stack gap="xs" component="section" aria-label="Filters">
      <Form onSubmit={submit} gap="xs">
        <Group align="flex-end" gap="xs">
          <TextInput
            {...field('to')}
            {...SEARCH_MARK}
            type="search"
            inputMode="email"
            placeholder="bob@example.com or @example.com"
            flex="1 1 14rem"
            autoComplete="off"
            spellCheck={false}
          />
          <Button type="submit">Search</Button>
          <Button variant="default" onClick={panel.toggle} aria-expanded={isOpen} aria-controls={panelId}>
            Filters
          </Button>
        </Group>
        <Collapse expanded={isOpen} id={panelId}>
          <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="xs">
            <NativeSelect {...field('status')} data={toOptions(STATUS_FILTERS, toFilterWord, 'Any')} />
            {EXTRA_NAMES.map((name) => (
              <TextInput
                key={name}
                {...field(name)}
                placeholder={PLACEHOLDERS[name]}
                type={name.endsWith('_date') ? 'date' : 'text'}
                autoComplete="off"
              />
            ))}
          </SimpleGrid>
        </Collapse>
      </Form>
      <Chips filters={filters} onChange={onChange} />
    </Stack>
  )
}

function Chips({ filters, onChange }: Pick<FilterBarProps, 'filters' | 'onChange'>) {
  const active = FILTER_NAMES.filter((name) => filters[name] !== undefined)
  if (active.length === 0) return null
  const remove = (name: FilterName) => onChange({ ...filters, [name]: undefined } as EmailFilters)
  return (
    <Group gap="xs" role="list" aria-label="Filters in use">
      {active.map((name) => {
        const value = name === 'status' ? toFilterWord(filters[name] ?? '') : filters[name]
        return (
          <Pill
            key={name}
            role="listitem"
            size="md"
            maw="100%"
            title={value}
            withRemoveButton
            onRemove={() => remove(name)}
            removeButtonProps={{
              'aria-label': `Remove the filter ${FILTER_LABELS[name]}`,
              'aria-hidden': false,
              tabIndex: 0,
            }}
          >
            {FILTER_LABELS[name]}: <bdi>{value}</bdi>
          </Pill>
        )
      })}
      {active.length > 1 && (
        <Button variant="subtle" size="compact-sm" onClick={() => onChange({})}>
          Remove all
        </Button>
      )}
    </Group>
  )
}
