/** @module Tabs of a page: one of its parts is shown. Those that are screens of their own are links: `AreaNavigation`. */
import { type KeyboardEvent, type ReactNode, useId } from 'react'

interface TabsProps<Name extends string> {
  /** Names the tabs for screen readers. */
  readonly label: string
  readonly tabs: readonly { readonly name: NoInfer<Name>; readonly label: ReactNode; readonly panel: ReactNode }[]
  readonly value: Name
  /** Whether the panels that are not shown keep what was typed. */
  readonly isKept?: boolean
  onChange(name: NoInfer<Name>): void
}

export function Tabs<Name extends string>({ label, tabs, value, isKept = false, onChange }: TabsProps<Name>) {
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
            {...((isKept || name === value) && { 'aria-controls': `${id}-panel-${name}` })}
            tabIndex={name === value ? 0 : -1}
            onClick={() => onChange(name)}
          >
            {tab}
          </button>
        ))}
      </div>
      {tabs.map(
        ({ name, panel }) =>
          (isKept || name === value) && (
            <div
              key={name}
              id={`${id}-panel-${name}`}
              role="tabpanel"
              aria-labelledby={`${id}-${name}`}
              hidden={name !== value}
            >
              {panel}
            </div>
          ),
      )}
    </div>
  )
}
