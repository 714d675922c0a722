/** @module Keyboard shortcuts of all screens, and the list of them. */
import { Modal } from '@mantine/core'
import { useWindowEvent } from '@mantine/hooks'
import { useNavigate } from '@tanstack/react-router'
import { useRef } from 'react'
import { useSession } from '../api/session.tsx'
import { listNavigation, type NavigationItem } from './navigation.ts'
import { Facts, isTyping } from './page.tsx'
import { Palette } from './palette.tsx'

/** Of the palette, as the keyboard of this machine has them. */
export const PALETTE_KEYS = /Mac|iP(hone|ad)/.test(navigator.userAgent) ? '⌘K' : 'Ctrl K'
/** Marks the element that `/` moves to. */
export const SEARCH_MARK = { 'data-search': '' }
/** Marks the rows that `j` and `k` move between; each has a link. */
export const ROW_MARK = { 'data-row': '' }

/** The URL of the row that was opened last. */
let lastOpened: string | undefined

/** As the ref of a list: back in it, the row that was opened has the focus, so that `j` and `k` continue there. */
export function focusLastOpened(list: HTMLElement | null): void {
  const links = list?.querySelectorAll<HTMLAnchorElement>('[data-row] a') ?? []
  const opened = [...links].find(({ href }) => href === lastOpened)
  if (!opened) return
  lastOpened = undefined
  opened.focus()
}

const listShortcuts = (navigation: readonly NavigationItem[]): readonly (readonly [keys: string, effect: string])[] => [
  ['/', 'Search on this screen'],
  [PALETTE_KEYS, 'Search, or go anywhere'],
  ...navigation.map(({ key, label }) => [`g ${key}`, `Go to ${label}`] as const),
  ['j', 'Next row'],
  ['k', 'Previous row'],
  ['Enter', 'Open the row'],
  ['Delete', 'Delete the captured email (in the sandbox)'],
  ['Esc', 'Close'],
  ['?', 'This list'],
]

/** After `g`, the next key must follow within this time. */
const SEQUENCE_MS = 1500

interface Dialog {
  readonly isOpen: boolean
  open(): void
  close(): void
}

export function Keyboard({ palette, help }: { readonly palette: Dialog; readonly help: Dialog }) {
  const navigate = useNavigate()
  const navigation = listNavigation(useSession())
  const goPressedAt = useRef(Number.NEGATIVE_INFINITY)
  useWindowEvent('click', ({ target }) => {
    const opened = target instanceof Element && target.closest<HTMLAnchorElement>('[data-row] a')
    if (opened) lastOpened = opened.href
  })
  useWindowEvent('keydown', (event) => {
    if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      palette.open()
      return
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
    if (event.timeStamp - goPressedAt.current < SEQUENCE_MS) {
      goPressedAt.current = Number.NEGATIVE_INFINITY
      const item = navigation.find(({ key }) => key === event.key)
      if (item) void navigate({ to: item.to })
      return
    }
    if (event.key === 'g') goPressedAt.current = event.timeStamp
    else if (event.key === '?') help.open()
    else if (event.key === 'j' || event.key === 'k') moveBetweenRows(event.key === 'j' ? 1 : -1)
    else if (event.key === '/') {
      const search = document.querySelector<HTMLInputElement>('[data-search]')
      if (!search) return
      event.preventDefault()
      search.focus()
      search.select()
    }
  })
  return (
    <>
      <Modal opened={help.isOpen} onClose={help.close} title="Keyboard shortcuts">
        <Facts facts={listShortcuts(navigation).map(([keys, effect]) => [effect, <kbd key={keys}>{keys}</kbd>])} />
      </Modal>
      <Palette isOpen={palette.isOpen} onClose={palette.close} />
    </>
  )
}

function moveBetweenRows(step: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>('[data-row] a')].filter(
    (link, index, all) =>
      all.findIndex((other) => other.closest('[data-row]') === link.closest('[data-row]')) === index,
  )
  const current = links.findIndex((link) => link.closest('[data-row]')?.contains(document.activeElement))
  const next = links[current < 0 ? (step === 1 ? 0 : links.length - 1) : current + step]
  next?.focus()
}
