/** @module The search field of a list; it takes effect with Enter, and is kept in the URL. */
import { Button, Group, TextInput } from '@mantine/core'
import { type ReactNode, useEffect, useState } from 'react'
import { SEARCH_MARK } from '../../parts/keyboard.tsx'

interface SearchFormProps {
  readonly label: string
  readonly placeholder?: string
  readonly value: string | undefined
  /** What the server finds wrong with it. */
  readonly error?: string | undefined
  /** Other filters. */
  readonly children?: ReactNode
  onSearch(value: string | undefined): void
}

export function SearchForm({ label, placeholder, value, error, children, onSearch }: SearchFormProps) {
  const [text, setText] = useState(value ?? '')
  useEffect(() => setText(value ?? ''), [value])
  return (
    <form
      aria-label="Filters"
      onSubmit={(event) => {
        event.preventDefault()
        onSearch(text.trim() === '' ? undefined : text.trim())
      }}
    >
      <Group align="flex-end" gap="xs">
        <TextInput
          {...SEARCH_MARK}
          type="search"
          label={label}
          {...(placeholder !== undefined && { placeholder })}
          value={text}
          error={error}
          onChange={(event) => setText(event.currentTarget.value)}
          flex="1 1 14rem"
          maw={420}
          maxLength={320}
          autoComplete="off"
          spellCheck={false}
        />
        {children}
        <Button type="submit">Search</Button>
      </Group>
    </form>
  )
}
