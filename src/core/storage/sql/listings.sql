-- select_test_products: a page of the test account's listings, newest first, then by SKU.
SELECT sku, listing_id, title, image, permalink, listing_type_id, price, currency, category_id, category_name,
    tax_category_id, status_meli, app_status, published_to_live, published_at
FROM listings
WHERE seller_id = %(seller_id)s AND environment = 'test' AND published_at IS NOT NULL
    AND (%(published_to_live)s::boolean IS NULL OR published_to_live = %(published_to_live)s)
    AND (%(status_meli)s::text IS NULL OR status_meli = %(status_meli)s)
    AND (%(app_status)s::smallint IS NULL OR app_status = %(app_status)s)
    AND (%(sku)s::text IS NULL OR sku = %(sku)s)
ORDER BY published_at DESC, sku LIMIT %(limit)s OFFSET %(offset)s;

-- count_test_products: how many match.
SELECT count(*) FROM listings
WHERE seller_id = %(seller_id)s AND environment = 'test' AND published_at IS NOT NULL
    AND (%(published_to_live)s::boolean IS NULL OR published_to_live = %(published_to_live)s)
    AND (%(status_meli)s::text IS NULL OR status_meli = %(status_meli)s)
    AND (%(app_status)s::smallint IS NULL OR app_status = %(app_status)s)
    AND (%(sku)s::text IS NULL OR sku = %(sku)s);
