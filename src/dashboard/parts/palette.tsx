/** @module The palette of Ctrl K: one box that finds screens, settings and what is in the account. */
import { Modal } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, useId, useState } from 'react'
import { useSession } from '../api/session.tsx'
import { CODE_INPUT } from './fields.ts'
import type { Target } from './filters.ts'
import { bindText } from './form.tsx'
import { IconSearch } from './icons.ts'
import { findPlaces } from './navigation.ts'
import { type Found, useSearch } from './search-everything.ts'

interface PaletteProps {
  readonly isOpen: boolean
  onClose(): void
}

export const Palette = ({ isOpen, onClose }: PaletteProps) => (
  <Modal
    opened={isOpen}
    onClose={onClose}
    title="Search"
    withCloseButton={false}
    size="lg"
    classNames={{ header: 'visually-hidden', body: 'palette' }}
  >
    <PaletteBody onClose={onClose} />
  </Modal>
)

const HINT = 'An address, a name, words of a subject, an id, a domain, a template, a setting.'

/** The input keeps the focus; the arrows choose one of the options, as in a combobox. */
function PaletteBody({ onClose }: Pick<PaletteProps, 'onClose'>) {
  const navigate = useNavigate()
  const session = useSession()
  const id = useId()
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const wanted = text.trim()
  const { groups, note } = useSearch(wanted)
  const places: Found = { label: 'Go to', items: findPlaces(wanted, session) }
  const shown = [places, ...groups].filter(({ items }) => items.length > 0)
  const items = shown.flatMap((group) => group.items)
  const current = items[Math.min(at, items.length - 1)]
  const go = (target: Target | undefined) => {
    if (!target) return
    onClose()
    void navigate(target)
  }
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step === undefined || items.length === 0) return
    event.preventDefault()
    const next = (Math.min(at, items.length - 1) + step + items.length) % items.length
    setAt(next)
    document.getElementById(`${id}-${next}`)?.scrollIntoView({ block: 'nearest' })
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        go(current?.target)
      }}
    >
      <div className="palette-input">
        <IconSearch size="1.125rem" aria-hidden />
        <input
          role="combobox"
          aria-label="Search"
          aria-expanded="true"
          aria-controls={id}
          aria-autocomplete="list"
          {...(current && { 'aria-activedescendant': `${id}-${items.indexOf(current)}` })}
          placeholder="Search for mail, people and screens"
          {...bindText(text, (typed) => {
            setText(typed)
            setAt(0)
          })}
          maxLength={998}
          onKeyDown={move}
          {...CODE_INPUT}
          data-autofocus
        />
        <kbd>Esc</kbd>
      </div>
      <div className="palette-results" id={id} role="listbox" aria-label="Results">
        {shown.map((group) => (
          // biome-ignore lint/a11y/useSemanticElements: a group of options is no fieldset
          <div key={group.label} role="group" aria-label={group.label}>
            <p className="nav-group" aria-hidden="true">
              {group.label}
            </p>
            {group.items.map((item) => (
              // biome-ignore lint/a11y/useFocusableInteractive lint/a11y/useKeyWithClickEvents: the input has the focus and the keys
              <div
                key={item.key}
                id={`${id}-${items.indexOf(item)}`}
                role="option"
                aria-selected={item === current}
                className="menu-item"
                onClick={() => go(item.target)}
                onMouseMove={() => setAt(items.indexOf(item))}
              >
                {item.icon && <item.icon size="1rem" aria-hidden />}
                <bdi className="palette-label">{item.label}</bdi>
                {item.note && <span className="menu-note">{item.note}</span>}
              </div>
            ))}
          </div>
        ))}
      </div>
      <p className="palette-note" role="status">
        {note ?? (wanted === '' ? HINT : items.length === 0 && 'Nothing found.')}
      </p>
    </form>
  )
}
