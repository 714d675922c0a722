/** The tabs of the editor of a template. */
export const EDITOR_TABS = ['html', 'text', 'data'] as const
export type EditorTab = (typeof EDITOR_TABS)[number]
