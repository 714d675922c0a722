/** @module The form with the filters of received mail. */
import { Button, NativeSelect, TextInput } from '@mantine/core'
import { useEffect, useState } from 'react'
import type { TassisError } from '#client/client.ts'
import { bindText, Form, findFieldError } from '../../parts/form.tsx'
import { SEARCH_MARK } from '../../parts/keyboard.tsx'
import { useAllDomains } from '../domains/queries.ts'
import { INBOUND_STATUS_FILTERS, type InboundFilterName, type InboundFilters, parseInboundFilters } from './filters.ts'
import { formatRoute } from './format.ts'
import { toInboundWord } from './marks.tsx'
import { useAllRoutes } from './queries.ts'

interface FilterBarProps {
  readonly filters: InboundFilters
  readonly error: TassisError | undefined
  onChange(filters: InboundFilters): void
}

interface Option {
  readonly value: string
  readonly label: string
}

/** With the chosen value, also when it is not among the known ones. */
const toOptions = (known: readonly Option[], chosen: string | undefined): Option[] => [
  { value: '', label: 'Any' },
  ...known,
  ...(chosen !== undefined && !known.some(({ value }) => value === chosen) ? [{ value: chosen, label: chosen }] : []),
]

export function InboundFilterBar({ filters, error, onChange }: FilterBarProps) {
  const [sender, setSender] = useState(filters.from ?? '')
  const { data: domains = [] } = useAllDomains()
  const { data: routes = [] } = useAllRoutes()
  useEffect(() => setSender(filters.from ?? ''), [filters.from])
  const change = (name: InboundFilterName, value: string) =>
    onChange(parseInboundFilters({ ...filters, from: sender, [name]: value }))
  const submit = () => change('from', sender)
  const names = new Map(domains.map(({ id, domain }) => [id, domain]))
  const select = (name: Exclude<InboundFilterName, 'from'>, known: readonly Option[]) => ({
    ...bindText(filters[name] ?? '', (value) => change(name, value)),
    data: toOptions(known, filters[name]),
    flex: '1 1 9rem',
  })
  const isFiltered = Object.values(filters).some((value) => value !== undefined)
  return (
    <Form isRow onSubmit={submit} aria-label="Filters">
      <TextInput
        {...SEARCH_MARK}
        label="Sender"
        type="search"
        inputMode="email"
        placeholder="bob@example.com"
        {...bindText(sender, setSender)}
        error={findFieldError(error, 'from')}
        flex="2 1 14rem"
        autoComplete="off"
        spellCheck={false}
      />
      <NativeSelect
        label="Status"
        {...select(
          'status',
          INBOUND_STATUS_FILTERS.map((status) => ({ value: status, label: toInboundWord(status) })),
        )}
      />
      <NativeSelect
        label="Domain"
        {...select(
          'domain',
          domains.map(({ id, domain }) => ({ value: id, label: domain })),
        )}
        error={findFieldError(error, 'domain_id')}
      />
      <NativeSelect
        label="Route"
        {...select(
          'route',
          routes.map((route) => ({ value: route.id, label: formatRoute(route, names.get(route.domain_id)) })),
        )}
        error={findFieldError(error, 'route_id')}
      />
      <Button type="submit">Search</Button>
      {isFiltered && (
        <Button variant="default" onClick={() => onChange({})}>
          Remove all
        </Button>
      )}
    </Form>
  )
}
