/** @module The form with the filters of a list, and those in use as chips. */
import { Button, Checkbox, Collapse, Group, NativeSelect, Pill, SimpleGrid, Stack, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useEffect, useId, useState } from 'react'
import type { Filter, Filters, FilterValues } from './filters.ts'
import { bindText, Form, findFieldError } from './form.tsx'
import { SEARCH_MARK } from './keyboard.tsx'

/** What a filter may be, in words, by its name: for what only the account knows. */
export type Choices = Readonly<Record<string, ReadonlyMap<string, string>>>

interface FilterFormProps {
  readonly filters: Filters
  readonly values: FilterValues
  readonly choices?: Choices
  /** Of the request: each field shows its own. */
  readonly error?: unknown
  onChange(values: FilterValues): void
}

/** More are hidden until they are asked for. */
const MAX_BESIDE = 4

/** Texts take effect with Enter, choices at once. */
export function FilterForm({ filters, values, choices = {}, error, onChange }: FilterFormProps) {
  const [typed, setTyped] = useState<FilterValues>({})
  const shown = Object.entries(filters).filter(([, { isHidden }]) => !isHidden)
  const beside = shown.length > MAX_BESIDE ? shown.slice(0, 1) : shown
  const others = shown.slice(beside.length)
  const [isOpen, panel] = useDisclosure(others.some(([name]) => values[name] !== undefined))
  const panelId = useId()
  const url = JSON.stringify(values)
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was typed is gone once the URL has other filters
  useEffect(() => setTyped({}), [url])
  const change = (changed: FilterValues) => onChange({ ...values, ...typed, ...changed })
  const field = (name: string, filter: Filter, isFirst: boolean) => (
    <Field
      key={name}
      name={name}
      filter={filter}
      isFirst={isFirst}
      value={typed[name] ?? values[name] ?? ''}
      choices={choices[name]}
      error={findFieldError(error, name)}
      onType={(text) => setTyped({ ...typed, [name]: text })}
      onChoose={(value) => change({ [name]: value })}
    />
  )
  const hasText = shown.some(([name, { words }]) => words === undefined && choices[name] === undefined)
  return (
    <Stack gap="xs" component="section" aria-label="Filters">
      {shown.length > 0 && (
        <Form onSubmit={() => change({})} gap="xs">
          <Group align="flex-end" gap="xs">
            {beside.map(([name, filter], index) => field(name, filter, index === 0))}
            {hasText && <Button type="submit">Search</Button>}
            {others.length > 0 && (
              <Button variant="default" onClick={panel.toggle} aria-expanded={isOpen} aria-controls={panelId}>
                Filters
              </Button>
            )}
          </Group>
          {others.length > 0 && (
            <Collapse expanded={isOpen} id={panelId}>
              <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="xs">
                {others.map(([name, filter]) => field(name, filter, false))}
              </SimpleGrid>
            </Collapse>
          )}
        </Form>
      )}
      <Chips filters={filters} values={values} choices={choices} onChange={onChange} />
    </Stack>
  )
}

interface FieldProps {
  readonly name: string
  readonly filter: Filter
  readonly isFirst: boolean
  readonly value: string
  readonly choices: ReadonlyMap<string, string> | undefined
  readonly error: string | undefined
  onType(text: string): void
  onChoose(value: string): void
}

function Field({ name, filter, isFirst, value, choices, error, onType, onChoose }: FieldProps) {
  const { label, words, placeholder, maxLength = 320 } = filter
  const mark = isFirst ? SEARCH_MARK : {}
  const options = choices ?? (words && new Map(Object.entries(words)))
  if (!options)
    return (
      <TextInput
        {...mark}
        label={label}
        type={name.endsWith('_date') ? 'date' : isFirst ? 'search' : 'text'}
        {...(placeholder !== undefined && { placeholder })}
        {...bindText(value, onType)}
        error={error}
        {...(isFirst && { flex: '1 1 14rem', maw: 640 })}
        maxLength={maxLength}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
      />
    )
  const only = options.get('true')
  if (only !== undefined)
    return (
      <Checkbox
        label={only}
        checked={value === 'true'}
        onChange={({ currentTarget }) => onChoose(currentTarget.checked ? 'true' : '')}
      />
    )
  return (
    <NativeSelect
      {...mark}
      label={label}
      {...bindText(value, onChoose)}
      error={error}
      data={[
        { value: '', label: 'Any' },
        ...[...options].map(([option, word]) => ({ value: option, label: word })),
        // What is chosen is an option, also while it is not known.
        ...(value === '' || options.has(value) ? [] : [value]),
      ]}
    />
  )
}

function Chips({ filters, values, choices = {}, onChange }: Omit<FilterFormProps, 'error'>) {
  const active = Object.entries(filters).filter(([name]) => values[name] !== undefined)
  if (active.length === 0) return null
  return (
    <Group gap="xs" role="list" aria-label="Filters in use">
      {active.map(([name, { label, words }]) => {
        const value = values[name] ?? ''
        const word = choices[name]?.get(value) ?? words?.[value] ?? value
        return (
          <Pill
            key={name}
            role="listitem"
            size="md"
            maw="100%"
            title={word}
            withRemoveButton
            onRemove={() => onChange({ ...values, [name]: '' })}
            removeButtonProps={{ 'aria-label': `Remove the filter ${label}`, 'aria-hidden': false, tabIndex: 0 }}
          >
            {label}: <bdi>{word}</bdi>
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
