/** @module The filters of a list: a search box, selects beside it, the others in a panel, and those in use as chips. */
import { Button, Checkbox, NativeSelect, Pill, TextInput } from '@mantine/core'
import { useDisclosure, useMediaQuery } from '@mantine/hooks'
import { useEffect, useId, useState } from 'react'
import { CODE_INPUT } from './fields.ts'
import type { Filter, Filters, FilterValues } from './filters.ts'
import { bindChecked, bindText, Form, findFieldError } from './form.tsx'
import { IconFilter, IconSearch, IconX } from './icons.ts'
import { SEARCH_MARK } from './keyboard.tsx'

/** What a filter may be, in words, by its name: for what only the account knows. Without any it is not shown. */
export type Choices = Readonly<Record<string, ReadonlyMap<string, string>>>

interface FilterFormProps {
  readonly filters: Filters
  readonly values: FilterValues
  readonly choices?: Choices
  /** Of the request: each field shows its own. */
  readonly error?: unknown
  onChange(values: FilterValues): void
}

/** With more, the texts after the first are in the panel. */
const MAX_BESIDE = 3
/** On a phone, where with more all but the first are in the panel. */
const MAX_BESIDE_NARROW = 2
const NARROW = '(max-width: 47.99em)'

const isText = ([name, { words }]: readonly [string, Filter], choices: Choices): boolean =>
  words === undefined && choices[name] === undefined

/** Texts take effect with Enter, choices at once. */
export function FilterForm({ filters, values, choices = {}, error, onChange }: FilterFormProps) {
  const [typed, setTyped] = useState<FilterValues>({})
  const shown = Object.entries(filters).filter(
    ([name, { isHidden, only }]) =>
      !isHidden && choices[name]?.size !== 0 && (only === undefined || values[only[0]] === only[1]),
  )
  const isNarrow = useMediaQuery(NARROW, undefined, { getInitialValueInEffect: false })
  const beside = isNarrow
    ? shown.slice(0, shown.length <= MAX_BESIDE_NARROW ? MAX_BESIDE_NARROW : 1)
    : shown.length <= MAX_BESIDE
      ? shown
      : shown.filter((entry, index) => index === 0 || entry[1].only || !isText(entry, choices))
  const others = shown.filter((entry) => !beside.includes(entry))
  const [isOpen, panel] = useDisclosure(!isNarrow && others.some(([name]) => values[name] !== undefined))
  const panelId = useId()
  const url = JSON.stringify(values)
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was typed is gone once the URL has other filters
  useEffect(() => setTyped({}), [url])
  const change = (changed: FilterValues) => {
    const wanted: FilterValues = { ...values, ...typed, ...changed }
    const isUsed = (only?: Filter['only']) => only === undefined || wanted[only[0]] === only[1]
    onChange(Object.fromEntries(Object.entries(wanted).filter(([name]) => isUsed(filters[name]?.only))))
  }
  const field = ([name, filter]: readonly [string, Filter], isFirst: boolean) => (
    <Field
      key={name}
      name={name}
      filter={filter}
      isFirst={isFirst}
      isBeside={beside.some(([other]) => other === name)}
      value={typed[name] ?? values[name] ?? ''}
      choices={choices[name]}
      error={findFieldError(error, name)}
      onType={(text) => setTyped({ ...typed, [name]: text })}
      onChoose={(value) => change({ [name]: value })}
      onLeave={() => typed[name] !== undefined && change({})}
    />
  )
  // What is seen in a field needs no chip.
  const chips = Object.entries(filters).filter(([name]) => !beside.some(([other]) => other === name) && values[name])
  // Its room is kept, so that the rows stay where they are.
  const clear = (
    <Button
      variant="subtle"
      color="gray"
      style={{ visibility: Object.keys(values).length > 0 ? 'visible' : 'hidden' }}
      onClick={() => onChange({})}
    >
      Clear
    </Button>
  )
  return (
    <section className="filter-bar" aria-label="Filters">
      <Form onSubmit={() => change({})} gap="xs">
        <div className="filters">
          {beside.map((entry, index) => field(entry, index === 0))}
          {others.length > 0 && (
            <Button
              variant="default"
              leftSection={<IconFilter size="1rem" aria-hidden />}
              onClick={panel.toggle}
              aria-expanded={isOpen}
              aria-controls={panelId}
            >
              Filters
            </Button>
          )}
          {!isNarrow && clear}
          {!isOpen && (
            <button type="submit" className="visually-hidden" tabIndex={-1}>
              Search
            </button>
          )}
        </div>
        <div className="filter-panel" id={panelId} hidden={!isOpen}>
          {isOpen && (
            <>
              {others.map((entry) => field(entry, false))}
              <Button type="submit" variant="default">
                Search
              </Button>
            </>
          )}
        </div>
      </Form>
      {chips.length > 0 && (
        <ul className="chips" aria-label="Filters in use">
          {chips.map(([name, { label, words }]) => {
            const value = values[name] ?? ''
            const word = choices[name]?.get(value) ?? words?.[value] ?? value
            return (
              <li key={name}>
                <Pill
                  size="md"
                  maw="100%"
                  title={word}
                  withRemoveButton
                  onRemove={() => change({ [name]: '' })}
                  removeButtonProps={{ 'aria-label': `Remove the filter ${label}`, 'aria-hidden': false, tabIndex: 0 }}
                >
                  {label}: <bdi>{word}</bdi>
                </Pill>
              </li>
            )
          })}
          {isNarrow && <li>{clear}</li>}
        </ul>
      )}
    </section>
  )
}

interface FieldProps {
  readonly name: string
  readonly filter: Filter
  readonly isFirst: boolean
  readonly isBeside: boolean
  readonly value: string
  readonly choices: ReadonlyMap<string, string> | undefined
  readonly error: string | undefined
  onType(text: string): void
  onChoose(value: string): void
  onLeave(): void
}

function Field({ name, filter, isFirst, isBeside, value, choices, error, onType, onChoose, onLeave }: FieldProps) {
  const { label, words, placeholder, maxLength = 320 } = filter
  const isDay = name.endsWith('_date')
  const options = choices ?? (words && new Map(Object.entries(words)))
  if (!options)
    return (
      <TextInput
        {...(isBeside
          ? {
              ...(isFirst && {
                ...SEARCH_MARK,
                className: 'filter-search',
                leftSection: <IconSearch size="1rem" aria-hidden />,
              }),
              'aria-label': label,
              type: isDay ? 'date' : 'search',
              placeholder: isFirst ? (placeholder ?? label) : label,
              rightSection: !isDay && value !== '' && (
                <button
                  type="button"
                  className="icon-button"
                  aria-label={`Remove the filter ${label}`}
                  onClick={() => onChoose('')}
                >
                  <IconX size="0.875rem" aria-hidden />
                </button>
              ),
            }
          : { label, type: isDay ? 'date' : 'text', ...(placeholder !== undefined && { placeholder }) })}
        {...bindText(value, onType)}
        {...(isDay && isBeside && { onBlur: onLeave })}
        error={error}
        maxLength={maxLength}
        {...CODE_INPUT}
      />
    )
  const only = options.get('true')
  if (only !== undefined)
    return <Checkbox label={only} {...bindChecked(value === 'true', (isChosen) => onChoose(isChosen ? 'true' : ''))} />
  return (
    <NativeSelect
      {...(isFirst && SEARCH_MARK)}
      aria-label={label}
      {...bindText(value, onChoose)}
      error={error}
      data-set={value === '' ? undefined : ''}
      data={[
        { value: '', label: `Any ${label.toLowerCase()}` },
        ...[...options].map(([option, word]) => ({ value: option, label: word })),
        // What is chosen is an option, also while it is not known.
        ...(value === '' || options.has(value) ? [] : [value]),
      ]}
    />
  )
}
