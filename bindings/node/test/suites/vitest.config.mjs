// The suites that need vitest are no tests of their own: a test of this folder's parent starts them.
export default { test: { include: ['*.suite.mjs'], cache: false } }
