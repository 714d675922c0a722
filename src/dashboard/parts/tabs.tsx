/** @module Tabs of a page: one of its parts is shown. Those that are screens of their own are links: `AreaNavigation`. */
import { type KeyboardEvent, type ReactNode, useId } from 'react'

interface TabsProps<Name extends string> {
  /** Names the tabs for screen readers. */
  readonly label: string
  readonly tabs: readonly { readonly name: Name; readonly label: ReactNode }[]
  readonly value: Name
  onChange(name: Name): void
  /** What the chosen tab shows. */
  readonly children: ReactNode
}

export function Tabs<Name extends string>({ label, tabs, value, onChange, children }: TabsProps<Name>) {
  const id = useId()
  const move = (event: KeyboardEvent) => {
    const now = tabs.findIndex(({ name }) => name === value)
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 }[event.key]
    const tab = next === undefined ? undefined : tabs.at(next % tabs.length)
    if (!tab) return
    event.preventDefault()
    onChange(tab.name)
    document.getElementById(`${id}-${tab.name}`)?.focus()
  }
  return (
    <div className="tabbed">
      <div className="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(({ name, label: tab }) => (
          <button
            key={name}
            id={`${id}-${name}`}
            type="button"
            role="tab"
            className="tab"
            aria-selected={name === value}
            aria-controls={id}
            tabIndex={name === value ? 0 : -1}
            onClick={() => onChange(name)}
          >
            {tab}
          </button>
        ))}
      </div>
      <div id={id} role="tabpanel" aria-labelledby={`${id}-${value}`}>
        {children}
      </div>
    </div>
  )
}
