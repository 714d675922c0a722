/** @module The content of a message, in tabs that are in the URL. */
import { Tabs } from '@mantine/core'
import type { ReactNode } from 'react'

const LABELS = {
  html: 'HTML',
  text: 'Text',
  headers: 'Headers',
  source: 'Source',
  attachments: 'Attachments',
  links: 'Links',
} as const

interface ContentTabsProps<Tab extends keyof typeof LABELS> {
  readonly tabs: readonly Tab[]
  readonly current: Tab
  /** After the label of a tab. */
  readonly notes?: Readonly<Record<string, string>>
  readonly children: (tab: Tab) => ReactNode
  onTab(tab: Tab): void
}

export const ContentTabs = <Tab extends keyof typeof LABELS>(props: ContentTabsProps<Tab>) => {
  const { tabs, current, notes = {}, children, onTab } = props
  return (
    <Tabs value={current} onChange={(next) => next && onTab(next as Tab)} keepMounted={false}>
      <Tabs.List aria-label="Content" mb="sm">
        {tabs.map((name) => (
          <Tabs.Tab key={name} value={name}>
            {LABELS[name]}
            {notes[name]}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map((name) => (
        <Tabs.Panel key={name} value={name}>
          {children(name)}
        </Tabs.Panel>
      ))}
    </Tabs>
  )
}
