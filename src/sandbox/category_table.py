"""The category tree of the sandbox: a realistic cut of site MCO.

The shape (roots, leaves, domains, Spanish names) is that of the real site; ids other than a few well known
ones are made up. Keywords are what the predictor looks for in a title, English and Spanish, singular,
without accents; two words joined by ``_`` are a phrase and weigh more. An entry ending in ``!`` weighs
double: the word nearly always names the product itself.
"""

from __future__ import annotations

from typing import NamedTuple


class Leaf(NamedTuple):
    """One category that takes listings. domain is the part of the domain id after ``MCO-``."""

    id: str
    name: str
    domain: str
    keywords: str


# Root categories: id, name, leaves.
ROOTS: tuple[tuple[str, str, tuple[Leaf, ...]], ...] = (
    (
        "MCO1747",
        "Accesorios para Vehículos",
        (
            Leaf(
                "MCO174701",
                "Repuestos para Carros",
                "VEHICLE_PARTS",
                "brake_pad! spark_plug! alternator! radiator! shock_absorber! suspension! ignition_coil! "
                "oxygen_sensor oil_filter! air_filter fuel_pump! wheel_bearing! control_arm! headlight_assembly "
                "tail_light! bumper! exhaust! camshaft strut! rotor! gasket! turbo muffler! catalytic caliper! "
                "replacement_for_ford chevrolet chevy silverado toyota honda_civic jeep_wrangler f150 freno bujia "
                "amortiguador",
            ),
            Leaf(
                "MCO174702",
                "Accesorios para Interior de Carros",
                "CAR_INTERIOR_ACCESSORIES",
                "car_seat_cover! seat_cover! floor_mat! steering_wheel! car_organizer trunk_organizer! sun_shade! "
                "windshield_sun car_trash cup_holder console_organizer car_cushion tapete volante car_interior",
            ),
            Leaf(
                "MCO174703",
                "Accesorios para Exterior de Carros",
                "CAR_EXTERIOR_ACCESSORIES",
                "car_cover! license_plate! mud_flap! roof_rack! wiper! wiper_blade! running_board trailer_hitch! "
                "hitch! tonneau! bug_deflector emblem! decal! tow bike_rack cargo_carrier truck_bed bed_liner rv! "
                "rv_cover camper",
            ),
            Leaf(
                "MCO174704",
                "Electrónica para Carros",
                "CAR_ELECTRONICS",
                "car_stereo! dash_cam! dashcam! car_charger! backup_camera! car_audio! car_speaker subwoofer "
                "amplifier_car radar_detector! gps! navigator navigation garmin tomtom carplay! fm_transmitter! "
                "obd2! obd jump_starter! car_radio head_unit android_auto car_mount car_amplifier vehicle_tracker "
                "gps_tracker!",
            ),
            Leaf(
                "MCO174705",
                "Llantas y Rines",
                "TIRES_AND_WHEELS",
                "tire! tyre! rim! llanta! rin! hubcap! wheel_cover! lug_nut! all_season_radial tire_inflator "
                "wheel_spacer! valve_stem tubeless radial_tire all_terrain wheel_weight",
            ),
            Leaf(
                "MCO174706",
                "Aceites y Fluidos para Vehículos",
                "VEHICLE_FLUIDS",
                "motor_oil! engine_oil! coolant! antifreeze! transmission_fluid! brake_fluid! gear_oil! "
                "synthetic_oil fuel_stabilizer! fuel_additive! fuel_injector_cleaner! aceite_motor penetrant "
                "octane 5w 10w lubricante grease!",
            ),
            Leaf(
                "MCO174707",
                "Limpieza y Cuidado del Carro",
                "CAR_CARE",
                "car_wash! car_wax! wax! polish! car_cleaner! detailing! microfiber_towel! ceramic_coating! "
                "tire_shine! clay_bar! chamois cera car_detailing car_scratch car_paint touch_up_paint! "
                "auto_paint spray_paint clear_coat! paint_marker primer",
            ),
            Leaf(
                "MCO174708",
                "Accesorios para Motos",
                "MOTORCYCLE_ACCESSORIES",
                "motorcycle! motorbike! harley! moto! atv! utv! dirt_bike! snowmobile powersport! motocross! "
                "motorcycle_helmet! casco polaris kayak_trailer",
            ),
            Leaf(
                "MCO174709",
                "Iluminación para Vehículos",
                "VEHICLE_LIGHTS",
                "headlight! fog_light! light_bar! led_headlight! turn_signal! h11! h7! 9005 9006 headlamp_bulb "
                "interior_light_car brake_light marker_light! bombillo_carro strobe_light",
            ),
        ),
    ),
    (
        "MCO1403",
        "Alimentos y Bebidas",
        (
            Leaf(
                "MCO140301",
                "Snacks y Despensa",
                "FOODS",
                "snack! chocolate! candy! coffee_bean cookie! tea! cereal! sauce! spice! gum! popcorn chip_food "
                "alimento galleta cafe jerky! nut_butter honey",
            ),
            Leaf(
                "MCO140302",
                "Suplementos Deportivos",
                "SPORTS_SUPPLEMENTS",
                "protein! whey! creatine! bcaa! pre_workout! amino! electrolyte! hydration! protein_bar! isolate! "
                "mass_gainer proteina creatina post_workout energy_drink! gatorade",
            ),
        ),
    ),
    (
        "MCO1071",
        "Animales y Mascotas",
        (
            Leaf(
                "MCO107101",
                "Accesorios para Perros",
                "DOG_SUPPLIES",
                "dog! puppy! leash! dog_collar! dog_bed! dog_toy! dog_food! dog_crate! harness_dog perro cachorro "
                "kibble canine pet_odor",
            ),
            Leaf(
                "MCO107102",
                "Accesorios para Gatos",
                "CAT_SUPPLIES",
                "cat! kitten! litter! cat_tree! catnip! scratching_post! scratcher! gato feline cat_food! litter_box!",
            ),
            Leaf(
                "MCO107103",
                "Acuarios y Peces",
                "AQUARIUM_SUPPLIES",
                "aquarium! fish_tank! fish_food! aquatic! betta! goldfish! pecera pez acuario water_conditioner "
                "saltwater reef coral",
            ),
            Leaf(
                "MCO107104",
                "Accesorios para Aves",
                "BIRD_SUPPLIES",
                "bird! parrot! parakeet! cockatiel! bird_cage! birdcage! bird_feeder! cuttlebone! pajaro loro "
                "finch budgie conure",
            ),
            Leaf(
                "MCO107105",
                "Reptiles y Anfibios",
                "REPTILE_SUPPLIES",
                "reptile! terrarium! turtle! lizard! gecko! bearded_dragon! snake! tortoise! frog! basking! "
                "tortuga iguana chameleon mealworm",
            ),
            Leaf(
                "MCO107106",
                "Pequeñas Mascotas",
                "SMALL_PET_SUPPLIES",
                "hamster! rabbit! guinea_pig! chinchilla! ferret! gerbil! small_animal! hay! timothy! conejo "
                "bunny bedding_animal",
            ),
            Leaf(
                "MCO107107",
                "Accesorios para Caballos",
                "HORSE_SUPPLIES",
                "horse! equine! saddle! bridle! halter! equestrian! stirrup! hoof! caballo pony_care fly_mask",
            ),
        ),
    ),
    (
        "MCO1368",
        "Arte, Papelería y Mercería",
        (
            Leaf(
                "MCO136801",
                "Pintura y Dibujo Artístico",
                "ART_SUPPLIES",
                "acrylic_paint! watercolor! paint_brush! paintbrush! canvas! easel! colored_pencil! sketchbook! "
                "sketch! marker! oil_paint! drawing! gouache! pastel! brush_pen crayon! calligraphy! linoleum! "
                "printmaking! screen_printing! ink! stencil! pincel lienzo artist drawing_pad brayer etching",
            ),
            Leaf(
                "MCO136802",
                "Manualidades",
                "CRAFT_SUPPLIES",
                "craft! scrapbook! scrapbooking! sticker! stamp! die_cut! cardstock! embossing! glue_gun! "
                "glitter! pompom! bead! beading! resin! clay! diy! manualidad jewelry_making! vinyl! cricut! "
                "washi! candle_making! mold! felt googly rubber_stamp heat_press cutting_die charm",
            ),
            Leaf(
                "MCO136803",
                "Costura y Tejido",
                "SEWING_SUPPLIES",
                "sewing! yarn! knitting! crochet! needle! thread! fabric! embroidery! cross_stitch! quilt! "
                "quilting! bobbin! zipper! lana aguja tela hilo fleece_fabric cotton_fabric sewing_machine! loom! "
                "dye! tie_dye! needlework seam_ripper elastic_band upholstery",
            ),
            Leaf(
                "MCO136804",
                "Papelería y Útiles",
                "STATIONERY",
                "notebook_paper pen! pencil! planner! journal! binder! envelope! index_card! stapler! "
                "highlighter! eraser! greeting_card! thank_you_card! card_set papeleria cuaderno lapiz notepad! "
                "sticky_note! calendar! stationery! postcard! label! memory_book! baby_book! record_book",
            ),
            Leaf(
                "MCO136805",
                "Empaques y Envolturas",
                "PACKAGING_SUPPLIES",
                "wrapping_paper! gift_wrap! gift_bag! ribbon! tissue_paper! bubble_wrap! packing_tape! mailer! "
                "poly_mailer! shipping_box! cardboard_box! gift_box! bow_gift packing packaging! empaque "
                "cinta_empaque bubble_mailer shipping_label corrugated stretch_wrap! zip_bag poly_bag!",
            ),
        ),
    ),
    (
        "MCO1384",
        "Bebés",
        (
            Leaf(
                "MCO138401",
                "Coches para Bebés",
                "BABY_STROLLERS",
                "stroller! pram! jogger_stroller travel_system! stroller_organizer! coche_bebe umbrella_stroller "
                "stroller_accessory",
            ),
            Leaf(
                "MCO138402",
                "Sillas de Carro para Bebés",
                "BABY_CAR_SEATS",
                "car_seat! infant_car booster_seat! convertible_car_seat! silla_carro carseat! booster seat_belt_child",
            ),
            Leaf(
                "MCO138403",
                "Alimentación del Bebé",
                "BABY_FEEDING",
                "baby_bottle! bottle_warmer! breast_pump! pacifier! sippy_cup! sippy! bib! high_chair! highchair! "
                "nursing! baby_food! teether! breastfeeding! formula! tetero biberon baby_spoon toddler_plate "
                "toddler_cup",
            ),
            Leaf(
                "MCO138404",
                "Pañales e Higiene del Bebé",
                "BABY_DIAPERING",
                "diaper! wipe! changing_pad! diaper_bag! potty! potty_training! training_pant! toilet_training! "
                "baby_bath! panal pull_up diaper_pail! baby_wipe! baby_wash baby_lotion baby_shampoo baby_bathtub "
                "toilet_seat_toddler",
            ),
            Leaf(
                "MCO138405",
                "Seguridad para Bebés",
                "BABY_SAFETY",
                "baby_monitor! baby_gate! safety_gate! outlet_cover! cabinet_lock! baby_proof! baby_proofing! "
                "corner_guard! bed_rail! childproof safety_lock proofing",
            ),
            Leaf(
                "MCO138406",
                "Cuarto del Bebé",
                "BABY_NURSERY",
                "crib! nursery! bassinet! swaddle! crib_sheet! baby_blanket! glider! changing_table! cradle! "
                "baby_mobile! cuna sleep_sack! receiving_blanket! baby_swing! bouncer! playard! play_yard! swing "
                "baby_gift! baby_shower!",
            ),
            Leaf(
                "MCO138407",
                "Ropa para Bebés",
                "BABY_CLOTHING",
                "onesie! bodysuit! romper! baby_boy! baby_girl! infant! newborn! layette! ropa_bebe footie! "
                "baby_clothe mitten! toddler_girl toddler_boy baby_sock bootie!",
            ),
            Leaf(
                "MCO138408",
                "Maternidad",
                "MATERNITY",
                "maternity! pregnancy! pregnancy_pillow! postpartum! nursing_bra! prenatal! maternidad embarazo "
                "belly_band pregnant",
            ),
            Leaf(
                "MCO138409",
                "Juguetes para Bebés",
                "BABY_TOYS",
                "rattle! play_mat! play_gym! activity_center! baby_toy! baby_walker! walker_baby stacking_toy! "
                "bath_toy! jumper! activity_gym toddler_toy! tummy_time! shape_sorter sensory_toy soft_block "
                "montessori!",
            ),
        ),
    ),
    (
        "MCO1246",
        "Belleza y Cuidado Personal",
        (
            Leaf(
                "MCO124601",
                "Maquillaje",
                "MAKEUP",
                "makeup! lipstick! mascara! eyeshadow! foundation! concealer! eyeliner! blush! lip_gloss! brow! "
                "maquillaje labial eyebrow! setting_spray lip_balm! lip_liner false_eyelash! makeup_brush! lash! "
                "lip_stain",
            ),
            Leaf(
                "MCO124602",
                "Cuidado de la Piel",
                "SKIN_CARE",
                "moisturizer! serum! sunscreen! face_cream! cleanser! toner! face_mask! skin! skincare! acne! "
                "retinol! lotion! body_lotion! hyaluronic! vitamin_c_serum crema_facial exfoliating! face_wash! "
                "spf body_butter salicylic",
            ),
            Leaf(
                "MCO124603",
                "Cuidado del Cabello",
                "HAIR_CARE",
                "shampoo! conditioner! hair! hair_dryer! curling! flat_iron! hairbrush! hair_brush! hair_clip! "
                "wig! scalp! hairspray! straightener! champu cabello hair_oil! hair_mask! curling_iron! "
                "hair_extension! bonnet! comb! scrunchy",
            ),
            Leaf(
                "MCO124604",
                "Afeitado y Depilación",
                "SHAVING",
                "razor! shaver! shaving! trimmer! epilator! hair_removal! beard! aftershave! wax_strip waxing! "
                "afeitadora clipper! shave_gel bikini_trimmer electric_shaver!",
            ),
            Leaf(
                "MCO124605",
                "Perfumes",
                "PERFUMES",
                "perfume! cologne! fragrance! eau! parfum! toilette! body_mist! perfumes deodorant! "
                "desodorante body_spray!",
            ),
            Leaf(
                "MCO124606",
                "Manicura y Pedicura",
                "NAIL_CARE",
                "nail_polish! manicure! pedicure! cuticle! nail! foot_file! callus! foot_mask foot_cream! toe! "
                "esmalte bunion insole! nail_clipper! gel_polish foot_peel! foot_spa",
            ),
            Leaf(
                "MCO124607",
                "Higiene Oral",
                "ORAL_CARE",
                "toothbrush! toothpaste! mouthwash! floss! dental! whitening! denture! tongue! teeth! "
                "cepillo_dental tooth! flosser! waterpik! mouth_guard! retainer",
            ),
            Leaf(
                "MCO124608",
                "Baño y Cuerpo",
                "BATH_BODY",
                "bath_bomb! bubble_bath! body_wash! soap! shower_gel! loofah! bath_salt! jabon hand_soap! "
                "bath_sponge shower_cap epsom body_scrub! bath_set spa_gift bath_pillow!",
            ),
        ),
    ),
    (
        "MCO1039",
        "Cámaras y Accesorios",
        (
            Leaf(
                "MCO103901",
                "Cámaras Digitales",
                "DIGITAL_CAMERAS",
                "digital_camera! dslr! mirrorless! camcorder! action_camera! gopro! instant_camera! polaroid! "
                "instax! camara_digital vlogging",
            ),
            Leaf(
                "MCO103902",
                "Accesorios para Cámaras",
                "CAMERA_ACCESSORIES",
                "tripod! camera_lens! lens! camera_bag! ring_light! softbox! camera_strap! memory_card! sd_card! "
                "camera_battery! binocular! telescope! tripode lente gimbal! flash_camera lens_cap photo_backdrop "
                "backdrop_photography studio_light",
            ),
            Leaf(
                "MCO103903",
                "Cámaras de Seguridad",
                "SECURITY_CAMERAS",
                "security_camera! surveillance! doorbell! video_doorbell! cctv! nvr! dvr! outdoor_camera! "
                "indoor_camera! ip_camera! blink! ring_doorbell! floodlight_cam! vigilancia motion_detection "
                "wireless_camera baby_cam hidden_camera!",
            ),
        ),
    ),
    (
        "MCO1051",
        "Celulares y Teléfonos",
        (
            Leaf(
                "MCO1055",
                "Celulares y Smartphones",
                "CELLPHONES",
                "smartphone! cell_phone! unlocked! galaxy_s! cellphone! celular iphone_unlocked android_phone "
                "5g_unlocked phone_unlocked prepaid_phone",
            ),
            Leaf(
                "MCO105102",
                "Accesorios para Celulares",
                "CELLPHONE_ACCESSORIES",
                "phone_case! phone_holder! screen_protector! power_bank! phone_charger! charging_cable! "
                "lightning! iphone! phone_stand! popsocket! wireless_charger! phone_mount! selfie_stick! "
                "usb_c_charger! charger! charging_station! phone! cargador usb_c magsafe portable_charger! "
                "phone_caddy",
            ),
        ),
    ),
    (
        "MCO1648",
        "Computación",
        (
            Leaf(
                "MCO1652",
                "Portátiles",
                "NOTEBOOKS",
                "laptop! notebook_computer chromebook! macbook! portatil thinkpad! laptop_computer! inspiron "
                "ideapad vivobook intel_core",
            ),
            Leaf(
                "MCO164802",
                "Computadores de Escritorio",
                "DESKTOP_COMPUTERS",
                "desktop_computer! desktop_pc! all_in_one_computer mini_pc! gaming_pc! workstation! computer! "
                "server! poweredge! proliant! computador imac! optiplex! tower_server rack_server thin_client",
            ),
            Leaf(
                "MCO164803",
                "Monitores",
                "MONITORS",
                "monitor! computer_monitor! gaming_monitor! ultrawide! curved_monitor! 144hz freesync monitores "
                "portable_monitor! ips_monitor",
            ),
            Leaf(
                "MCO164804",
                "Tablets y Accesorios",
                "TABLETS",
                "tablet! ipad! kindle! fire_hd! ereader! e_reader! tablet_case! ipad_case! stylus! ebook! kobo! "
                "galaxy_tab! digitizer! paperwhite! apple_pencil fire_tablet nook",
            ),
            Leaf(
                "MCO164805",
                "Componentes de PC",
                "PC_COMPONENTS",
                "graphics_card! motherboard! cpu! processor! ram! ddr4! ddr5! power_supply! pc_case! gpu! "
                "cooling_fan heatsink! geforce! radeon! ryzen! tarjeta_grafica cpu_cooler! memory_module "
                "computer_case thermal_paste! nvme",
            ),
            Leaf(
                "MCO164806",
                "Almacenamiento",
                "DATA_STORAGE",
                "hard_drive! ssd! external_drive! flash_drive! usb_drive! nas! hdd! memory_stick! thumb_drive! "
                "disco_duro solid_state! external_hard! microsd! micro_sd! blank_disc dvd_r bd_r sata m_2",
            ),
            Leaf(
                "MCO164807",
                "Redes y Conectividad",
                "NETWORKING",
                "router! modem! wifi! mesh! ethernet! network_switch! access_point! wifi_extender! extender! "
                "network_adapter! switch_port docsis! poe! gigabit! red_inalambrica patch_cable cat6! cat8 wi_fi "
                "network_cable powerline",
            ),
            Leaf(
                "MCO164808",
                "Teclados, Mouse y Periféricos",
                "PERIPHERALS",
                "keyboard! mouse! mouse_pad! webcam! usb_hub! docking_station! dock! laptop_stand! "
                "laptop_charger! hdmi! hub! usb_adapter! teclado laptop_cooling cooling_pad! laptop_battery! "
                "gaming_mouse! kvm! displayport! laptop_adapter adapter! cable_usb usb_cable! laptop_skin "
                "printer_cable trackpad",
            ),
            Leaf(
                "MCO164809",
                "Impresoras y Tinta",
                "PRINTERS",
                "printer! inkjet! laser_printer! toner_cartridge! ink_cartridge! scanner! impresora pixma! "
                "laserjet! label_maker! cartridge! all_in_one_color shredder! laminator! calculator! copier",
            ),
            Leaf(
                "MCO164810",
                "Impresión 3D",
                "3D_PRINTERS",
                "3d_printer! filament! pla! petg! abs_filament 3d_printing! 3d_pen! extruder! nozzle_3d ender_3! "
                "resin_printer! hotend! 1_75mm!",
            ),
        ),
    ),
    (
        "MCO1144",
        "Consolas y Videojuegos",
        (
            Leaf(
                "MCO114401",
                "Videojuegos",
                "VIDEO_GAMES",
                "video_game! standard_edition! playstation_game nintendo_ds! mario! zelda! pokemon_version! "
                "pokemon_game sony_psp! psp! ps_vita! vita! wii! wii_u! nintendo_3ds! 3ds! 2ds! xbox_360! "
                "xbox_one! ps3! ps4! playstation_3! playstation_4! pc_game! videojuego mac_game steam! game_code "
                "digital_code! sims! nintendo_switch! switch_game nds! dsi! action_replay! sega! atari! gamecube! "
                "edition_playstation clank halo! call_of_duty! pc_mac online_game_code pc_dvd pc_download",
            ),
            Leaf(
                "MCO114402",
                "Consolas",
                "GAME_CONSOLES",
                "console! xbox_series! playstation_5! ps5! game_console! retro_console! handheld_game consola "
                "playstation! nintendo! xbox! gaming_system",
            ),
            Leaf(
                "MCO114403",
                "Accesorios para Consolas",
                "CONSOLE_ACCESSORIES",
                "controller! joystick! gamepad! gaming_headset! controller_charger! joy_con! thumb_grip! "
                "game_case! controle gaming_chair! controller_skin console_skin! remote_charger racing_wheel! "
                "charging_dock! replacement_parts_switch wii_remote!",
            ),
            Leaf(
                "MCO114404",
                "Realidad Virtual",
                "VIRTUAL_REALITY",
                "vr! virtual_reality! oculus! quest_2! psvr! vr_headset! htc_vive! meta_quest! vr_lens "
                "realidad_virtual vr_glasses psvr2!",
            ),
        ),
    ),
    (
        "MCO118204",
        "Construcción",
        (
            Leaf(
                "MCO118205",
                "Plomería y Grifería",
                "PLUMBING",
                "faucet! shower_head! sink! toilet! flush_valve! pipe! plumbing! valve! drain! hose_fitting! "
                "pump! sump_pump! water_pump! grifo ducha hydraulic! pneumatic! fitting! showerhead! bathtub! "
                "pvc_pipe shut_off pex! water_heater! compressor_fitting garbage_disposal!",
            ),
            Leaf(
                "MCO118206",
                "Iluminación del Hogar",
                "LIGHTING",
                "light_bulb! bulb! lamp! chandelier! pendant_light! led_strip! string_light! ceiling_light! "
                "night_light! wall_sconce! sconce! flashlight! lantern! lampara bombillo light_fixture! "
                "led_light! solar_light! desk_lamp! floor_lamp! smart_bulb! vanity_light! light_switch! dimmer! "
                "ceiling_fan! track_lighting downlight recessed_light!",
            ),
            Leaf(
                "MCO118207",
                "Materiales de Electricidad",
                "ELECTRICAL_SUPPLIES",
                "wire! outlet! circuit_breaker! extension_cord! electrical! surge_protector! power_strip! relay! "
                "transformer! conduit! smart_plug! plug! cable_tie! resistor! capacitor! led_diode breadboard! "
                "arduino! raspberry_pi! switch_electrical heat_shrink! connector! terminal_block! diode "
                "potentiometer transistor battery! aa_battery! aaa solenoid fuse!",
            ),
            Leaf(
                "MCO118208",
                "Cerrajería y Puertas",
                "DOOR_HARDWARE",
                "door_lock! smart_lock! deadbolt! door_handle! hinge! doorknob! door_knob! keypad! padlock! "
                "door_closer! cerradura lock! door! keyless! garage_door! panic_bar exit_device! garage_opener",
            ),
            Leaf(
                "MCO118209",
                "Pinturas y Acabados",
                "PAINTS",
                "paint! wall_paint! primer_paint wallpaper! paint_roller! caulk! sealant! stain! painters_tape! "
                "roof_coating! pintura wall_sticker peel_and_stick! epoxy! adhesive! glue! super_glue! "
                "silicone_sealant! loctite! lubricant! wd_40 varnish spackle! roller_cover roofing "
                "construction_adhesive",
            ),
            Leaf(
                "MCO118210",
                "Ferretería y Tornillería",
                "HARDWARE",
                "screw! bolt! nut! washer! nail_fastener anchor! fastener! bracket! rivet! hook! tornillo "
                "steel_rod mesh! metal_sheet aluminum_sheet! sheet_metal caster! caster_wheel! spring! chain! "
                "hex! stainless_steel_screw drawer_slide! cabinet_pull! cabinet_knob! knob! drawer_pull "
                "threaded_rod magnet! velcro! o_ring! bearing! pulley! sprocket! shaft v_belt! gear timing_belt! "
                "clamp! wire_rope! carabiner! acrylic_sheet! foam_sheet rubber_sheet! plywood lumber",
            ),
        ),
    ),
    (
        "MCO1276",
        "Deportes y Fitness",
        (
            Leaf(
                "MCO127601",
                "Fitness y Musculación",
                "FITNESS",
                "dumbbell! kettlebell! yoga! yoga_mat! resistance_band! treadmill! exercise! workout! "
                "exercise_bike! barbell! foam_roller! jump_rope! gym! weight_bench! pesa gimnasio fitness! "
                "pull_up_bar! ab_roller weight_plate elliptical",
            ),
            Leaf(
                "MCO127602",
                "Camping y Aire Libre",
                "CAMPING",
                "tent! camping! sleeping_bag! hammock! hiking! cooler! backpacking! campfire! carpa "
                "camping_chair! outdoor_chair! fishing! fishing_rod! kayak! paddle_board! hunting! knife! "
                "compass! survival! water_bottle! tumbler! headlamp! trekking_pole! canopy! hydration_pack! "
                "stanley! water_filter_straw folding_chair! beach_chair",
            ),
            Leaf(
                "MCO127603",
                "Ciclismo",
                "CYCLING",
                "bicycle! bike! cycling! bike_helmet! bike_light! mountain_bike! bicicleta bike_pump! bike_seat! "
                "bike_lock! e_bike electric_bike",
            ),
            Leaf(
                "MCO127604",
                "Pelotas y Deportes de Equipo",
                "TEAM_SPORTS",
                "basketball! soccer! football! baseball! volleyball! tennis! golf! hockey! softball! lacrosse! "
                "pickleball! balon glove_baseball soccer_ball! basketball_hoop! trampoline! badminton! cornhole! "
                "dartboard! ping_pong! table_tennis! disc_golf! swim! goggle! pool_float! boxing! sport_toy "
                "skateboard! roller_skate! nfl mlb nba",
            ),
            Leaf(
                "MCO127605",
                "Monopatines y Triciclos",
                "SCOOTERS_AND_TRICYCLES",
                "scooter! tricycle! wagon! ride_on! balance_bike! hoverboard! kick_scooter! triciclo monopatin "
                "patineta trike! electric_scooter! pedal_car go_kart!",
            ),
        ),
    ),
    (
        "MCO5726",
        "Electrodomésticos",
        (
            Leaf(
                "MCO572601",
                "Aspiradoras y Cuidado de Pisos",
                "VACUUM_CLEANERS",
                "vacuum! vacuum_cleaner! robot_vacuum! mop! steam_mop! carpet_cleaner! roomba! floor_cleaner! "
                "aspiradora stick_vacuum! vacuum_bag! vacuum_filter! sweeper! carpet_shampoo! dyson shark_vacuum "
                "bissell roborock! mop_pad! broom!",
            ),
            Leaf(
                "MCO572602",
                "Electrodomésticos de Cocina",
                "KITCHEN_APPLIANCES",
                "blender! coffee_maker! toaster! air_fryer! microwave! espresso! mixer! slow_cooker! rice_cooker! "
                "food_processor! kettle! juicer! licuadora cafetera instant_pot! pressure_cooker! waffle_maker! "
                "keurig! ice_maker! griddle! refrigerator! freezer! dishwasher! oven! stove! range_hood! "
                "mini_fridge! coffee_machine dehydrator! bread_maker nespresso",
            ),
            Leaf(
                "MCO572603",
                "Climatización",
                "AIR_CONDITIONING",
                "air_conditioner! heater! space_heater! fan! humidifier! dehumidifier! air_purifier! thermostat! "
                "hvac! furnace! ventilador calentador tower_fan! hepa! air_filter! furnace_filter! "
                "smart_thermostat! nest! ecobee! fireplace! evaporative_cooler! ac_unit exhaust_fan! purifier "
                "replacement_filter! register_vent",
            ),
            Leaf(
                "MCO572604",
                "Lavado y Planchado",
                "LAUNDRY_AND_IRONING",
                "iron! steam_iron! garment_steamer! steamer! ironing_board! ironing! washing_machine! dryer! "
                "clothes_dryer laundry! plancha lavadora ironing_board_cover! ironing_mat lint_remover! "
                "clothes_steamer! drying_rack! dryer_vent",
            ),
        ),
    ),
    (
        "MCO1000",
        "Electrónica, Audio y Video",
        (
            Leaf(
                "MCO100001",
                "Audífonos",
                "HEADPHONES",
                "headphone! earbud! earphone! airpod! headset! noise_cancelling! in_ear! over_ear! audifono "
                "wireless_earbud! earpod earpad",
            ),
            Leaf(
                "MCO100002",
                "Parlantes y Audio Portátil",
                "SPEAKERS",
                "speaker! bluetooth_speaker! soundbar! sound_bar! boombox! radio! mp3_player! mp3! cd_player! "
                "turntable! record_player! parlante portable_radio! home_theater! receiver! subwoofer_home "
                "amplifier! microphone! karaoke! cassette! walkman! walkie_talkie! voice_recorder! cd_boombox "
                "alarm_clock! clock_radio! bookshelf_speaker",
            ),
            Leaf(
                "MCO100003",
                "Televisores y Video",
                "TELEVISIONS",
                "tv! television! smart_tv! roku! streaming! fire_tv! tv_mount! tv_stand! remote_control! antenna! "
                "blu_ray! dvd_player! televisor apple_tv! chromecast! tv_antenna! hdtv! oled! qled! "
                "streaming_stick! universal_remote! tv_wall_mount! wall_mount! vhs cable_hdmi",
            ),
            Leaf(
                "MCO100004",
                "Proyectores",
                "PROJECTORS",
                "projector! projector_screen! video_projector! mini_projector! proyector projector_lamp! "
                "projector_mount! projection_screen!",
            ),
            Leaf(
                "MCO100005",
                "Relojes Inteligentes y Wearables",
                "SMARTWATCHES",
                "smartwatch! smart_watch! fitness_tracker! apple_watch! fitbit! watch_band_apple "
                "activity_tracker! galaxy_watch! smart_ring! reloj_inteligente heart_rate_monitor wearable "
                "garmin_forerunner",
            ),
            Leaf(
                "MCO100006",
                "Hogar Inteligente",
                "SMART_HOME",
                "smart_home! alexa! echo! google_home! google_nest! hub_smart smart_switch! smart_speaker! "
                "echo_dot! zigbee! z_wave! homekit! smart_sensor motion_sensor! door_sensor! smart_blind! "
                "water_leak! smart_button casa_inteligente smart! alarm_system! sensor! sprinkler_controller! "
                "smart_hub!",
            ),
        ),
    ),
    (
        "MCO175794",
        "Herramientas",
        (
            Leaf(
                "MCO175795",
                "Herramientas Eléctricas",
                "POWER_TOOLS",
                "drill! power_drill! impact_driver! circular_saw! sander! angle_grinder! cordless_drill! jigsaw! "
                "power_tool! taladro rotary_tool! grinder! chainsaw! chain_saw! nail_gun! nailer! heat_gun! "
                "air_compressor! leaf_blower! miter_saw! reciprocating_saw! dewalt! makita! milwaukee! "
                "pressure_washer! router_bit! saw! table_saw impact_wrench! 20v",
            ),
            Leaf(
                "MCO175796",
                "Herramientas Manuales",
                "HAND_TOOLS",
                "screwdriver! hammer! wrench! plier! tool_set! socket_set! socket! ratchet! utility_knife! "
                "crowbar! tool_box! toolbox! tool_bag! allen! torque_wrench! martillo llave destornillador tool! "
                "chisel! vise! hand_tool! tweezer! snip! multitool! multi_tool! pry_bar stud_finder tool_kit! "
                "mechanic workbench! creeper! floor_jack! jack_stand! bottle_jack! pick_up_tool",
            ),
            Leaf(
                "MCO175797",
                "Medición",
                "MEASURING_TOOLS",
                "tape_measure! caliper_digital laser_level! level! ruler! multimeter! measuring! thermometer_gun "
                "infrared_thermometer! micrometer! protractor! digital_caliper! medicion gauge! tester! "
                "oscilloscope! scale_digital! moisture_meter! sound_level! laser_distance! borescope! "
                "inspection_camera! meter! anemometer voltage_tester! ph_meter chalk_line!",
            ),
            Leaf(
                "MCO175798",
                "Corte y Abrasivos",
                "CUTTING_AND_ABRASIVES",
                "drill_bit! end_mill! saw_blade! blade! sandpaper! sanding! sanding_disc! grinding_wheel! "
                "cutting_disc! carbide! reamer! abrasive! hole_saw! tap_and_die! broca lija disco_corte "
                "sharpening_stone! scissor! cutting_tool! polishing! polishing_pad! wire_wheel! cutoff_wheel "
                "flap_disc! sanding_belt! burr! deburring! buffing_wheel! step_drill",
            ),
            Leaf(
                "MCO175799",
                "Soldadura",
                "WELDING",
                "welding! welder! solder! soldering! soldering_iron! welding_helmet! mig! tig! torch! flux! "
                "electrode! soldadura plasma_cutter! welding_rod! solder_wire! welding_glove desoldering",
            ),
            Leaf(
                "MCO175800",
                "Jardinería y Exterior",
                "GARDENING",
                "garden! lawn! hose! sprinkler! planter! plant_pot! seed! fertilizer! lawn_mower! mower! pruner! "
                "shovel! rake! jardin maceta garden_hose! grass! weed! patio! greenhouse! robotic_mower "
                "irrigation! insect! mosquito! pest! grill! bbq! outdoor! pool!",
            ),
        ),
    ),
    (
        "MCO1574",
        "Hogar y Muebles",
        (
            Leaf(
                "MCO157401",
                "Ropa de Cama",
                "BEDDING",
                "bedding! sheet_set! bed_sheet! comforter! duvet! pillow! pillowcase! blanket! mattress! "
                "quilt_set! sabana almohada cobija mattress_topper! mattress_protector! throw_blanket! bedspread! "
                "bed_skirt! weighted_blanket! duvet_cover! pillow_case!",
            ),
            Leaf(
                "MCO157402",
                "Baño",
                "BATHROOM_ACCESSORIES",
                "towel! bath_towel! shower_curtain! bath_mat! toilet_brush! toilet_paper_holder! bathroom! toalla "
                "cortina_bano soap_dispenser! bath_rug! shower_caddy! towel_rack! washcloth! toothbrush_holder "
                "towel_bar! bidet!",
            ),
            Leaf(
                "MCO157403",
                "Cocina y Menaje",
                "KITCHENWARE",
                "cookware! frying_pan! skillet! pan! pot! knife_set! cutting_board! dinnerware! plate! bowl! mug! "
                "spatula! utensil! bakeware! olla sarten cubierto food_storage! cup! glassware! baking! colander! "
                "measuring_cup! kitchen! coffee_mug! wine_glass! flatware! tableware! napkin! tongs! can_opener! "
                "peeler! lunch_box! oven_mitt! apron! straw! whisk! grater! chafing! food_container! food_pan! "
                "tray! serving! pitcher! thermos! silverware! restaurant! disposable_cup paper_plate",
            ),
            Leaf(
                "MCO157404",
                "Decoración del Hogar",
                "HOME_DECOR",
                "wall_art! decor! vase! candle! picture_frame! clock! mirror! artificial_plant! wall_decor! "
                "canvas_print! poster! wreath! curtain! rug! throw_pillow! tapestry! figurine! cuadro vela espejo "
                "alfombra wall_clock! photo_frame! home_decor! wall_hanging! area_rug! doormat! diffuser! "
                "essential_oil! sculpture! statue! metal_sign! centerpiece! framed! canvas_wall! cushion_cover! "
                "pillow_cover! blind! shade! garland! flag!",
            ),
            Leaf(
                "MCO157405",
                "Muebles",
                "FURNITURE",
                "sofa! chair! table! desk! bookshelf! bookcase! dresser! bed_frame! nightstand! couch! recliner! "
                "cabinet! mueble escritorio office_chair! bar_stool! stool! ottoman! coffee_table! tv_console "
                "futon! bench! dining! wardrobe! vanity! end_table! side_table! headboard! loveseat! "
                "accent_chair! bean_bag! toddler_bed! kid_table kid_chair bunk_bed! sectional! armchair",
            ),
            Leaf(
                "MCO157406",
                "Organización y Almacenamiento",
                "HOME_STORAGE",
                "storage! organizer! storage_bin! shelf! hanger! shoe_rack! basket! closet! storage_box! "
                "container! laundry_basket! hamper! organizador canasta drawer_organizer! storage_cabinet! rack! "
                "shelving! bin! tote_storage storage_bag! trash_can! garbage_can! wastebasket! shelving_unit! "
                "craft_storage storage_case! pegboard! garment_rack! storage_cart! cart!",
            ),
            Leaf(
                "MCO157407",
                "Limpieza del Hogar",
                "CLEANING_SUPPLIES",
                "cleaner! cleaning! detergent! disinfectant! sponge! trash_bag! paper_towel! toilet_paper! "
                "dish_soap! laundry_detergent! bleach! limpiador detergente cleaning_cloth! air_freshener! "
                "bathroom_cleaner! all_purpose! dishwasher_pod! fabric_softener! stain_remover! facial_tissue! "
                "tissue! garbage_bag! scrub_brush! duster! dust! janitorial! hand_sanitizer! sanitizer! urinal! "
                "mop_bucket! febreze! lysol! clorox! tide! squeegee! insecticide foaming",
            ),
        ),
    ),
    (
        "MCO1499",
        "Industrias y Oficinas",
        (
            Leaf(
                "MCO149901",
                "Seguridad Industrial",
                "SAFETY_EQUIPMENT",
                "safety_glasses! hard_hat! safety_vest! glove! respirator! ear_plug! earplug! ear_protection! "
                "work_glove! face_shield! safety! guante casco_seguridad fire_extinguisher! smoke_detector! "
                "smoke_alarm! carbon_monoxide! nitrile! harness! eyewash! n95! reflective! nitrile_glove! "
                "safety_sign! lockout! spill_kit first_responder earmuff! knee_pad! coverall! gun_safe! safe!",
            ),
            Leaf(
                "MCO149902",
                "Equipo Industrial y Manejo de Carga",
                "INDUSTRIAL_EQUIPMENT",
                "hand_truck! dolly! pallet! hoist! winch! forklift! industrial! conveyor! ratchet_strap! "
                "tie_down! ladder! polea montacargas motor! gearbox! coupling! filtration! filter! membrane! "
                "water_filter! filter_cartridge! sediment! roller_chain! lifting! crane! drum! bungee! tarp! "
                "sling! vacuum_pump! electric_motor! heavy_duty! pallet_jack! truck_tractor semi_truck",
            ),
            Leaf(
                "MCO149903",
                "Laboratorio y Ciencia",
                "LAB_EQUIPMENT",
                "microscope! beaker! test_tube! lab! laboratory! petri! pipette! centrifuge! flask! science! "
                "laboratorio reagent! vial! science_kit! slide_microscope graduated_cylinder! glass_bottle! "
                "hot_plate! chemistry! anatomy! specimen! stem_kit scientific! autoclave! incubator!",
            ),
            Leaf(
                "MCO149904",
                "Equipamiento Comercial",
                "RETAIL_EQUIPMENT",
                "display_case! mannequin! cash_register! price_tag! barcode! pos! display_rack! display_stand! "
                "sign_holder! retail! vitrina receipt! tagging_gun! gridwall! slatwall! brochure_holder! "
                "open_sign! cash_drawer! display_shelf clothing_rack! jewelry_display! money_counter! sign! "
                "banner!",
            ),
        ),
    ),
    (
        "MCO1182",
        "Instrumentos Musicales",
        (
            Leaf(
                "MCO118201",
                "Instrumentos y Accesorios",
                "MUSICAL_INSTRUMENTS",
                "guitar! piano! violin! ukulele! drum_set! harmonica! flute! trumpet! guitarra midi! "
                "guitar_string! musical_instrument! saxophone! xylophone! tambourine cajon clarinet",
            ),
        ),
    ),
    (
        "MCO1132",
        "Juegos y Juguetes",
        (
            Leaf(
                "MCO113201",
                "Muñecas y Accesorios",
                "DOLLS",
                "doll! barbie! dollhouse! baby_doll! muneca american_girl! doll_clothe bratz! lol_surprise! "
                "disney_princess! rainbow_high doll_stroller",
            ),
            Leaf(
                "MCO113202",
                "Figuras de Acción",
                "ACTION_FIGURES",
                "action_figure! figure! funko! playset! marvel! star_wars! transformer_toy figura batman! "
                "spider_man! dinosaur! ninja_turtle avenger! jurassic! mutant paw_patrol! power_ranger wwe!",
            ),
            Leaf(
                "MCO113203",
                "Bloques y Construcción",
                "BUILDING_TOYS",
                "lego! building_block! building_set! magnetic_tile! building_toy! brick! bloque magna_tile! "
                "building_kit! k_nex! marble_run! construction_set! lincoln_log tinker model_kit!",
            ),
            Leaf(
                "MCO113204",
                "Juegos de Mesa y Rompecabezas",
                "BOARD_GAMES_AND_PUZZLES",
                "board_game! puzzle! jigsaw_puzzle! card_game! chess! monopoly! rompecabezas juego_mesa "
                "playing_card! domino! trivia! 1000_piece! wooden_puzzle! brain_teaser! rubik! party_game! "
                "family_game! dice! game! uno! crossword checker piece_puzzle",
            ),
            Leaf(
                "MCO113205",
                "Vehículos de Juguete",
                "TOY_VEHICLES",
                "hot_wheel! matchbox! toy_car! rc_car! remote_control_car! train_set! slot_car! die_cast! "
                "diecast! toy_truck! race_track! toy_train! carrito tren_juguete monster_truck! tractor! bus! "
                "school_bus! fire_truck! dump_truck! garbage_truck! excavator! toy_boat! boat! train! race_car! "
                "track_set! locomotive! thomas! brio! construction_vehicle! rc_truck! rc! carrera! john_deere! "
                "drone! helicopter! airplane! bruder! lionel! railroad! trolley truck! fire_engine! tram! 1_64! "
                "1_32! 1_24!",
            ),
            Leaf(
                "MCO113206",
                "Peluches y Títeres",
                "PLUSH_TOYS",
                "plush! stuffed_animal! teddy_bear! puppet! hand_puppet! squishmallow! peluche titere marionette! "
                "puppet_theater! plushie! finger_puppet! stuffed! plush_toy! squishmallows beanie_boo",
            ),
            Leaf(
                "MCO113207",
                "Juguetes Educativos y de Novedad",
                "EDUCATIONAL_TOYS",
                "toy! fidget! slime! learning! educational! flash_card! pop_it! science_toy bubble_machine! "
                "bubble_wand water_gun! water_table! nerf! kite! yo_yo! squishy! magic_kit! juguete play_tent! "
                "stem! stem_toy! kid_tablet kid_camera! vtech! leapfrog! spinner! sensory! play_doh! "
                "kinetic_sand! sandbox! swing_set! slide! melissa_doug! fidget_toy! finger_toy! whoopee kid_game",
            ),
            Leaf(
                "MCO113208",
                "Disfraces y Juego de Roles",
                "COSTUMES_AND_PRETEND_PLAY",
                "costume! dress_up! pretend_play! play_kitchen! cosplay! halloween_costume! disfraz play_food! "
                "doctor_kit! tea_set! princess_dress! wig_costume cape! superhero! tutu! kitchen_playset! "
                "pretend! play_house! playhouse! toy_kitchen! mask!",
            ),
        ),
    ),
    (
        "MCO3025",
        "Libros, Revistas y Comics",
        (
            Leaf(
                "MCO302501",
                "Libros",
                "BOOKS",
                "book! hardcover! paperback! novel! comic! libro workbook! coloring_book! cookbook! textbook! "
                "activity_book! board_book! dictionary manga!",
            ),
        ),
    ),
    (
        "MCO441917",
        "Recuerdos, Piñatas y Fiestas",
        (
            Leaf(
                "MCO441918",
                "Artículos para Fiestas",
                "PARTY_SUPPLIES",
                "balloon! party! birthday! party_favor! party_decoration! confetti! pinata! tablecloth! "
                "cake_topper! goodie_bag! globo fiesta backdrop! party_supply! bachelorette! graduation! "
                "photo_booth! birthday_party! centerpiece_party baby_shower_party wedding! table_cover! streamer! "
                "new_year! gender_reveal",
            ),
            Leaf(
                "MCO441919",
                "Decoración de Temporada",
                "SEASONAL_DECOR",
                "christmas! halloween! christmas_tree! ornament! easter! thanksgiving! christmas_light! stocking! "
                "navidad inflatable! fall_decor! santa! valentine! skeleton! pumpkin! nativity! "
                "christmas_decoration! patriotic independence_day",
            ),
            Leaf(
                "MCO441920",
                "Tarjetas de Regalo",
                "GIFT_CARDS",
                "gift_card! egift! e_gift! gift_certificate! tarjeta_regalo giftcard! prepaid_card subscription! "
                "membership! currency_card",
            ),
        ),
    ),
    (
        "MCO3937",
        "Relojes y Joyas",
        (
            Leaf(
                "MCO393701",
                "Relojes",
                "WRISTWATCHES",
                "watch! wristwatch! quartz! chronograph! watch_band! reloj g_shock! casio! bracelet_watch! "
                "analog_watch! sport_watch! digital_watch! watch_strap! watch_box! timex! seiko! citizen! "
                "invicta! analog",
            ),
            Leaf(
                "MCO393702",
                "Joyas y Bisutería",
                "JEWELRY",
                "necklace! earring! bracelet! ring! jewelry! pendant! sterling_silver! gold_plated! collar_joya "
                "arete pulsera anillo charm_bracelet! anklet! brooch! cubic_zirconia! cufflink! jewelry_box! "
                "diamond! birthstone! hoop_earring! stud_earring! tennis_bracelet! body_jewelry 14k",
            ),
        ),
    ),
    (
        "MCO1430",
        "Ropa y Accesorios",
        (
            Leaf(
                "MCO143001",
                "Ropa de Hombre",
                "MENS_CLOTHING",
                "men_shirt! men_t_shirt! men_short! men_pant! men_jacket! men_hoodie! boxer! men_s! poncho! polo! "
                "men_jean! suit! hombre camisa_hombre men! t_shirt! tank_top! sweatshirt! hoodie! jean! jacket! "
                "boxer_brief! undershirt! cargo_pant! long_sleeve! tee! crewneck! sweatpant! vest! flannel!",
            ),
            Leaf(
                "MCO143002",
                "Ropa de Mujer",
                "WOMENS_CLOTHING",
                "dress! legging! blouse! bra! skirt! women_top! women_dress! lingerie! women! cardigan! jumpsuit! "
                "bikini! swimsuit! vestido falda mujer women_t_shirt! pajama! women_pant! tunic! sport_bra! "
                "sweater! women_jean! women_jacket! nightgown! robe! shapewear! women_s! panty! camisole! "
                "pantyhose! tight!",
            ),
            Leaf(
                "MCO143003",
                "Ropa de Niños",
                "KIDS_CLOTHING",
                "boy_shirt! boy_short! boy_pant! girl_dress! school_uniform! uniform! kid_shirt boy_uniform! "
                "girl_uniform! boy! girl! nino nina ropa_nina boy_jacket! girl_legging! girl_top! girl_short! "
                "boy_polo! pinafore! jumper_dress! girl_skirt! scooter_skirt! skort! little_girl big_boy "
                "boy_pajama boy_hoodie boy_underwear kid",
            ),
            Leaf(
                "MCO143004",
                "Zapatos de Hombre",
                "MENS_SHOES",
                "men_shoe! men_boot! men_sneaker! men_sandal! loafer! oxford! work_boot! zapato_hombre "
                "men_slipper! men_running! boot! sneaker! running_shoe! shoe! basketball_shoe! walking_shoe! "
                "slip_on! clog! cleat! air_force! moc_toe! tenis chukka!",
            ),
            Leaf(
                "MCO143005",
                "Zapatos de Mujer",
                "WOMENS_SHOES",
                "women_shoe! women_boot! heel! women_sandal! women_sneaker! pump_shoe! ballet_flat! "
                "women_slipper! zapato_mujer tacon sandal! slipper! flat! flip_flop! wedge! ankle_boot! stiletto! "
                "mule! espadrille! women_walking!",
            ),
            Leaf(
                "MCO143006",
                "Zapatos de Niños",
                "KIDS_SHOES",
                "kid_shoe! boy_sneaker! girl_sneaker! boy_shoe! girl_shoe! kid_sneaker! toddler_shoe! boy_boot! "
                "girl_boot! big_kid! little_kid! boy_sandal! girl_sandal! girl_flat! toddler_sneaker! zapato_nino "
                "mary_jane! unisex_child! kid_boot",
            ),
            Leaf(
                "MCO143007",
                "Accesorios de Moda",
                "FASHION_ACCESSORIES",
                "belt! scarf! hat! beanie! cap! sunglasses! tie! necktie! wallet! sock! bow_tie! headband! "
                "baseball_cap! cinturon gorra bufanda gafas suspender! bucket_hat! knit_cap! hair_bow! keychain! "
                "key_ring! keyring! winter_glove! earmuffs! handkerchief! eyeglasses! reading_glasses! "
                "blue_light_glasses! contact_lens! sun_hat! lanyard! money_clip! card_holder! visor!",
            ),
            Leaf(
                "MCO143008",
                "Carteras y Bolsos",
                "HANDBAGS",
                "handbag! purse! crossbody! tote! tote_bag! clutch! shoulder_bag! satchel! hobo! cartera bolso "
                "wristlet! fanny_pack! belt_bag! crossbody_bag! large_tote! jet_set! messenger_bag! sling_bag! "
                "bucket_bag",
            ),
        ),
    ),
    (
        "MCO158425",
        "Equipaje y Viajes",
        (
            Leaf(
                "MCO158426",
                "Maletas",
                "SUITCASES",
                "suitcase! luggage! carry_on! spinner! hardside! softside! checked! maleta equipaje luggage_set! "
                "expandable_luggage! rolling! piece_set! trolley_case upright! roller",
            ),
            Leaf(
                "MCO158427",
                "Morrales y Mochilas",
                "BACKPACKS",
                "backpack! rucksack! daypack! school_bag! bookbag! morral mochila laptop_backpack! laptop_bag! "
                "briefcase! laptop_sleeve! laptop_case! rolling_backpack! knapsack! drawstring_bag! "
                "laptop_messenger! computer_bag!",
            ),
            Leaf(
                "MCO158428",
                "Bolsos de Viaje",
                "TRAVEL_BAGS",
                "duffel! duffle! duffel_bag! weekender! garment_bag! travel_bag! gym_bag! travel_tote! "
                "bolso_viaje overnight_bag! rolling_duffel! weekend_bag! duffle_bag! suit_bag!",
            ),
            Leaf(
                "MCO158429",
                "Accesorios de Viaje",
                "TRAVEL_ACCESSORIES",
                "packing_cube! luggage_tag! passport! neck_pillow! travel_pillow! travel_adapter! luggage_strap! "
                "toiletry_bag! travel_bottle! luggage_cover! travel! viaje money_belt! luggage_scale! umbrella! "
                "paraguas rain_umbrella! toiletry! compression_sock! travel_size golf_umbrella! passport_holder!",
            ),
        ),
    ),
    (
        "MCO180800",
        "Salud y Equipamiento Médico",
        (
            Leaf(
                "MCO180801",
                "Suplementos y Vitaminas",
                "DIETARY_SUPPLEMENTS",
                "vitamin! supplement! probiotic! collagen! omega! fish_oil! multivitamin! gummy! melatonin! "
                "magnesium! capsule! suplemento vitamina turmeric! ashwagandha! keto! apple_cider! fiber! zinc! "
                "biotin! elderberry! softgel! herbal! weight_loss! detox digestive",
            ),
            Leaf(
                "MCO180802",
                "Cuidado Médico",
                "MEDICAL_SUPPLIES",
                "blood_pressure! thermometer! first_aid! bandage! medical! wheelchair! walker! crutch! glucose! "
                "oximeter! stethoscope! cpap! termometro vendaje syringe! nebulizer! pill! pill_organizer! "
                "knee_brace! brace! surgical! gauze! disposable_glove! nursing_home compression! splint! "
                "catheter! cane! test_strip! heating_pad! ice_pack! scrub! exam! tens! hearing_aid! hearing! "
                "cold_pack eye_drop! allergy! pain_relief! ibuprofen! cough! antacid! lidocaine! ointment! "
                "incontinence! underpad! medicine! contact_solution! magnifier! magnifying! eye_mask! eye! "
                "dental_tool orthodontic dentist! sterilization",
            ),
            Leaf(
                "MCO180803",
                "Bienestar y Relajación",
                "WELLNESS",
                "massager! massage! massage_gun! acupressure! aromatherapy! meditation! neck_massager! "
                "foot_massager! wellness! masajeador acupuncture! sauna! light_therapy! sound_machine! "
                "white_noise! sleep_mask! shakti incense",
            ),
            Leaf(
                "MCO180804",
                "Bienestar Sexual",
                "SEXUAL_WELLNESS",
                "condom! lube! vibrator! personal_lubricant! sexual! intimate! condon preservativo pleasure! "
                "adult_toy ovulation! pregnancy_test! couples_toy dildo",
            ),
        ),
    ),
)

# Where titles go that match no keyword; also the only leaf of the last root.
OTHER_ROOT = ("MCO1953", "Otras Categorías")
OTHER_LEAF = Leaf("MCO195301", "Otros", "OTHERS", "")

# Categories that the predictor never suggests. Each exists to provoke one kind of refusal or oddity.
SPECIAL_ROOT = ("MCO990000", "Categorías de Prueba")
STRICT_ATTRIBUTES = Leaf("MCO990001", "Con Marca y Modelo Obligatorios", "STRICT_ATTRIBUTES", "")
STRICT_IDENTIFIER = Leaf("MCO990002", "Con Código Universal Obligatorio", "STRICT_IDENTIFIER", "")
STRICT_SIZE_CHART = Leaf("MCO990003", "Con Guía de Tallas", "STRICT_SIZE_CHART", "")
STRICT_PACKAGE = Leaf("MCO990004", "Con Medidas de Empaque Obligatorias", "STRICT_PACKAGE", "")
LONG_TITLE = Leaf("MCO990005", "Con Título Largo", "LONG_TITLE", "")
HIGH_MINIMUM = Leaf("MCO990006", "Con Precio Mínimo Alto", "HIGH_MINIMUM", "")
FEW_PICTURES = Leaf("MCO990007", "Con Pocas Fotos", "FEW_PICTURES", "")
STRICT_BRAND = Leaf("MCO990008", "Con Marca Acreditada", "STRICT_BRAND", "")
LISTING_CLOSED = Leaf("MCO990009", "Cerrada a Publicaciones", "LISTING_CLOSED", "")
SPECIAL_LEAVES = (
    STRICT_ATTRIBUTES,
    STRICT_IDENTIFIER,
    STRICT_SIZE_CHART,
    STRICT_PACKAGE,
    LONG_TITLE,
    HIGH_MINIMUM,
    FEW_PICTURES,
    STRICT_BRAND,
    LISTING_CLOSED,
)
# A category that was replaced: items sent to it land in OTHER_LEAF with warning 382.
MIGRATED_CATEGORY = "MCO195399"
